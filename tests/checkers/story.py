"""Handwritten histories: a story is a list of calls with times in seconds. ``told`` sorts and numbers the entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.history import NEMESIS, History, Op, OpType
from harness.history.lock_keys import KeyState, attach_keys

SECOND = 1_000_000_000
DEFAULTS: dict[str, Any] = {
    "clients": ["c0", "c1", "c2", "c3"],
    "servers": ["n1"],
    "discipline": "trusting",
    "fencing": "off",
    "ttl": 2.0,
    "hold": 0.5,
    "slack": 1.0,
    "workload": "mutex",
}


def nanoseconds(seconds: dict[str, float]) -> dict[str, int]:
    return {name: round(value * SECOND) for name, value in seconds.items()}


class Story:
    """A list of calls; ``at`` times are seconds. After an info (except of a read) a client gets a new process
    number."""

    def __init__(self, **settings: Any) -> None:
        self._settings = {**DEFAULTS, **settings}
        self._entries: list[tuple[float, int, str | None, OpType, str, str | None, Any, str | None]] = []
        self._keys: list[KeyState] = []
        self.nemesis(0.0, "start", "info", self._settings)

    def entry(self, at: float, client: str | None, type_: OpType, f: str, *rest: Any) -> None:
        """Add an entry; ``rest`` is key, value and error, as far as present."""
        key, value, error = (*rest, None, None, None)[:3]
        self._entries.append((at, len(self._entries), client, type_, f, key, value, error))

    def nemesis(self, at: float, f: str, type_: OpType, value: Any, error: str | None = None) -> None:
        self.entry(at, None, type_, f, None, value, error)

    def call(
        self,
        client: str,
        f: str,
        begin: float,
        end: float | None,
        outcome: OpType = "ok",
        *,
        key: str = "k0",
        asked: Any = None,
        got: Any = None,
        error: str | None = None,
    ) -> Story:
        """Add a call; with ``end`` None it never returns."""
        self.entry(begin, client, "invoke", f, key, asked)
        if end is not None:
            self.entry(end, client, outcome, f, key, got, error)
        return self

    def acquire(
        self,
        client: str,
        begin: float,
        end: float | None,
        outcome: OpType = "ok",
        *,
        fence: int | str | None = None,
        valid_for: float | None = None,
        key: str = "k0",
        timeout: float = 10.0,
        shared: bool = False,
    ) -> Story:
        mode = {"shared": True} if shared else {}
        got = {"fence": fence, "valid_for": valid_for, **mode} if outcome == "ok" else None
        return self.call(client, "acquire", begin, end, outcome, key=key, asked={"timeout": timeout, **mode}, got=got)

    def release(
        self, client: str, begin: float, end: float | None = None, outcome: OpType = "ok", *, key: str = "k0"
    ) -> Story:
        return self.call(client, "release", begin, begin + 0.001 if end is None else end, outcome, key=key)

    def access(
        self,
        client: str,
        f: str,
        at: float,
        arrival: int,
        value: Any = None,
        *,
        fence: Any = None,
        key: str = "k0",
        shared: bool = False,
    ) -> Story:
        """Add an accepted access."""
        asked = {"fence": fence, "value": value} if f in ("write", "cas") else {"fence": fence}
        asked |= {"shared": True} if shared else {}
        got = {"arrival": arrival, "value": value} if f == "read" else {"arrival": arrival}
        return self.call(client, f, at, at + 0.001, key=key, asked=asked, got=got)

    def server_key(
        self,
        at: float,
        owner: str | None,
        *,
        by: str | None = None,
        left: float | None = None,
        key: str = "k0",
        answers: bool = True,
        server: str = "n1",
    ) -> Story:
        """Add a change of the key on a server, with the seconds that are left to its end."""
        ns = None if left is None else round(left * SECOND)
        self._keys.append(KeyState(round(at * SECOND), server, key, owner, ns, by, answers))
        return self

    def add(self, client: str, at: float, seen: int = 0, outcome: OpType = "ok", *, key: str = "k0") -> Story:
        """Add one to a counter of the lock's own service."""
        got = {"seen": seen, "written": seen + 1} if outcome == "ok" else None
        return self.call(client, "add", at, at + 0.001, outcome, key=key, got=got)

    def fault(
        self,
        number: int,
        name: str,
        hosts: list[str],
        begin: float,
        end: float | None = None,
        *,
        disturbs: bool = False,
        observed: Any = None,
        healed: Any = None,
    ) -> Story:
        about = {"id": number, "fault": name, "hosts": hosts}
        self.nemesis(begin, "inject", "invoke", {**about, "disturbs": disturbs, "params": {}})
        self.nemesis(begin + 0.001, "inject", "ok", {**about, "observed": observed or {}})
        if end is not None:
            self.nemesis(end, "heal", "ok", {**about, "observed": healed or {}})
        return self

    def clocks(self, at: float, ahead: dict[str, float]) -> Story:
        """Add a reading of clocks, with their offsets in seconds."""
        self.nemesis(at, "clocks", "info", nanoseconds(ahead))
        return self

    def jump(self, begin: float, ahead: dict[str, float], end: float | None = None, rate: float = 0.0) -> Story:
        """Add a fault that sets clocks ahead by these offsets (in seconds), and a heal that corrects them."""
        seen = {"clock_ns": nanoseconds(ahead)} | ({"rate": rate} if rate else {})
        right = {"clock_ns": dict.fromkeys(ahead, 0)}
        name = "clock-drift" if rate else "clock-jump"
        return self.fault(len(self._entries), name, list(ahead), begin, end, observed=seen, healed=right)

    def crash(self, at: float, host: str) -> Story:
        self.nemesis(at, "crash", "info", {"host": host})
        return self

    def exit(
        self, at: float, host: str, *, gone: float | None = None, by: str = "sys.exit", threads: Sequence[str] = ()
    ) -> Story:
        """Let the main thread of a client's process end; the process is gone at ``gone``, or never."""
        self.nemesis(at, "exit", "info", {"host": host, "by": by, "threads": list(threads)})
        if gone is not None:
            self.nemesis(gone, "exited", "info", {"host": host})
        return self

    def history(self, end: float | None = None, reason: str | None = "done") -> History:
        """Return the history. It has a stop entry at ``end`` (by default the last time) unless ``reason`` is None."""
        last = max(at for at, *_ in self._entries) if end is None else end
        if reason is not None:
            self.nemesis(last, "stop", "info", {"reason": reason})
        history = History(self._ops())
        if self._keys:
            attach_keys(history, self._keys)
        return history

    def _ops(self) -> list[Op]:
        processes: dict[str, int] = {}
        ops: list[Op] = []
        fresh = 0
        for index, (at, _, client, type_, f, key, value, error) in enumerate(
            sorted(self._entries, key=lambda e: e[:2])
        ):
            process = NEMESIS
            if client is not None:
                if client not in processes:
                    processes[client], fresh = fresh, fresh + 1
                process = processes[client]
                if type_ == "info" and f != "read":
                    del processes[client]
            time = round(at * SECOND)
            node = client if client is not None else (value or {}).get("host")
            ops.append(Op(index, time, time, process, type_, f, key, value, error, node))
        return ops
