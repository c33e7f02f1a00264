"""The control side of the helper container, which does what needs privileges in the other containers' namespaces.

It sees all processes of the machine (``--pid=host``) and has five capabilities; the other containers need none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .channel import Conversation, Unanswered
from .engine import Box, Deployment

OPTIONS: Final[dict[str, Any]] = {
    "pid_mode": "host",
    "cap_drop": ["ALL"],
    "cap_add": ["NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE", "KILL"],
}
PATIENCE: Final = 30.0
"""Seconds; an answer is a matter of milliseconds."""
PROXY_USER: Final = 65533
"""Whom a client's proxy runs as: how its connections are told from the client's own."""
DISKS: Final[dict[str, Any]] = {
    "cap_add": [*OPTIONS["cap_add"], "MKNOD", "SYS_CHROOT"],
    "device_cgroup_rules": ["b 7:* rwm", "c 10:237 rwm"],
    "security_opt": ["apparmor=unconfined"],
    "tmpfs": {"/disks": ""},
}
"""Beside the rest, for a helper that makes disks: loop devices, and to mount them in other containers, which the
AppArmor profile of Docker forbids even those who have the capabilities."""


class Helper:
    """Requests to ``python -m harness.helper``; see :mod:`harness.helper.server`. Hosts are given by their boxes."""

    def __init__(self, deployment: Deployment, image: str, *, disks: bool = False) -> None:
        self._box = deployment.box("helper", image, "helper", **{**OPTIONS, **(DISKS if disks else {})})
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

    def knock(
        self, source: Box, address: str, port: int, timeout: float, hello: bytes = b"", *, greets: bool = False
    ) -> float | None:
        """Seconds until a server answers ``hello`` (by default what Redis understands), through whatever is in the
        way; None if it does not. One that ``greets`` speaks first."""
        fields: dict[str, Any] = {"address": address, "port": port, "timeout": timeout}
        if hello:
            fields |= {"hello": hello.hex(), "greets": greets}
        trip: float | None = self._ask("knock", pid=source.pid, wait=2 * timeout + 5, **fields)
        return trip

    def connections(self, box: Box, addresses: list[tuple[str, int]]) -> int:
        """How many connections a box's client has to these addresses; its proxy's own do not count."""
        count: int = self._ask("connections", pid=box.pid, addresses=addresses, without_user=PROXY_USER)
        return count

    def delay(self, box: Box, sources: dict[str, dict[str, Any]], seed: int) -> None:
        """What is done to packets that arrive at a box, by source address; an empty dict ends it."""
        self._ask("shape", pid=box.pid, sources=sources, seed=seed)

    def spare(self, box: Box, bystanders: list[int]) -> None:
        """From now on only these processes of a box are left alone and not counted, beside its idle first one."""
        self._ask("spare", pid=box.pid, pids=bystanders)

    def kill(self, box: Box, meanwhile: Callable[[], None] = lambda: None) -> None:
        """SIGKILL to everything in a box, and wait until it is gone. ``meanwhile`` is called when the signal is on its
        way: a frozen process dies when it thaws."""
        request = self._conversation.request("kill", pids=[box.pid])
        meanwhile()
        request.result(PATIENCE)

    def empty(self, boxes: Sequence[Box]) -> None:
        """SIGKILL to everything in all of these, also to what was spared; nothing is any more."""
        for box in boxes:
            self.spare(box, [])
        self._ask("kill", pids=[box.pid for box in boxes])

    def members(self, box: Box) -> list[int]:
        """The numbers of what runs in a box, beside its idle first process and those that are spared."""
        members: list[int] = self._ask("members", pid=box.pid)
        return members

    def disk(self, op: str, box: Box | None = None, **fields: Any) -> Any:
        """Do something to the disk of a box, or to all; see :class:`harness.helper.disks.Disks`."""
        return self._ask(op, **({} if box is None else {"pid": box.pid}), **fields)

    def move_clock(self, box: Box, offset_ns: int, rate: float, since_ns: int) -> None:
        """The box's wall clock is to be ``offset_ns`` ahead of true time at ``since_ns`` (monotonic), and to gain
        ``rate`` s a second."""
        self._ask("clock", pids=[box.pid], offset_ns=offset_ns, rate=rate, since_ns=since_ns)

    def clock(self, box: Box) -> int:
        """What is set in a box: ns ahead of true time."""
        offset: int = self._ask("offset", pid=box.pid)
        return offset

    def write(self, path: str, texts: dict[Box, str]) -> None:
        """Replace what is in a file of that path, in each of some boxes."""
        self._ask("write", path=path, texts={str(box.pid): text for box, text in texts.items()})

    def close(self) -> None:
        self._conversation.close()

    def _ask(self, op: str, *, wait: float = PATIENCE, **fields: Any) -> Any:
        try:
            return self._conversation.ask(op, patience=wait, **fields)
        except Unanswered as error:
            raise RuntimeError(f"the helper container does not work: {error}") from error
