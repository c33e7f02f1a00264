"""The control side of the helper container, which does what needs privileges in the other containers' namespaces.

It sees all processes of the machine (``--pid=host``) and has five capabilities; the other containers need none.
"""

from __future__ import annotations

from typing import Any, Final

from .channel import Conversation, Unanswered
from .engine import Box, Deployment

OPTIONS: Final[dict[str, Any]] = {
    "pid_mode": "host",
    "cap_drop": ["ALL"],
    "cap_add": ["NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE", "KILL"],
}
PROXY_USER: Final = 65533
"""Whom a client's proxy runs as: how its connections are told from the client's own."""


class Helper:
    """Requests to ``python -m harness.helper``; see :mod:`harness.helper.server`. Hosts are given by their boxes."""

    def __init__(self, deployment: Deployment, image: str) -> None:
        self._box = deployment.box("helper", image, "helper", **OPTIONS)
        self._conversation = Conversation(
            lambda on_line, on_end: self._box.start(["python3", "-m", "harness.helper"], on_line, on_end=on_end),
            lambda event: None,  # noqa: ARG005
        )

    def filter(self, scripts: dict[Box, str]) -> None:
        """Apply nftables scripts, each in the network namespace of its box."""
        self._ask("filter", scripts={str(box.pid): script for box, script in scripts.items()})

    def ping(self, source: Box, address: str, timeout: float) -> float | None:
        """Round trip of an ICMP echo in seconds, None if nothing came back."""
        trip: float | None = self._ask("ping", pid=source.pid, address=address, timeout=timeout, wait=timeout + 5)
        return trip

    def knock(self, source: Box, address: str, port: int, timeout: float) -> float | None:
        """Seconds until a Redis server answers ``PING``, through whatever is in the way; None if it does not."""
        fields = {"address": address, "port": port, "timeout": timeout}
        trip: float | None = self._ask("knock", pid=source.pid, wait=2 * timeout + 5, **fields)
        return trip

    def connections(self, box: Box, addresses: list[tuple[str, int]]) -> int:
        """How many connections a box's client has to these addresses; its proxy's own do not count."""
        count: int = self._ask("connections", pid=box.pid, addresses=addresses, without_user=PROXY_USER)
        return count

    def delay(self, box: Box, sources: dict[str, dict[str, Any]], seed: int) -> None:
        """What is done to packets that arrive at a box, by source address; an empty dict ends it."""
        self._ask("shape", pid=box.pid, sources=sources, seed=seed)

    def kill(self, boxes: list[Box]) -> None:
        """SIGKILL to everything in these boxes but their idle first process."""
        self._ask("kill", pids=[box.pid for box in boxes])

    def alive(self, box: Box) -> bool:
        """Does anything run in a box, beside its idle first process?"""
        states: dict[str, str] = self._ask("states", pid=box.pid)
        return any(state not in "ZX" for state in states.values())

    def move_clocks(self, boxes: list[Box], offset_ns: int, rate: float) -> None:
        """From now on these boxes' wall clocks are ``offset_ns`` ahead of true time and gain ``rate`` s a second."""
        self._ask("clock", pids=[box.pid for box in boxes], offset_ns=offset_ns, rate=rate)

    def clock(self, box: Box) -> int:
        """What is set in a box: ns ahead of true time."""
        offset: int = self._ask("offset", pid=box.pid)
        return offset

    def close(self) -> None:
        self._conversation.close()

    def _ask(self, op: str, *, wait: float = 30.0, **fields: Any) -> Any:
        try:
            return self._conversation.ask(op, patience=wait, **fields)
        except Unanswered as error:
            raise RuntimeError(f"the helper container does not work: {error}") from error
