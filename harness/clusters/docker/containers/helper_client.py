"""Client of the helper container, which performs privileged operations in the other containers' namespaces.

The helper sees all processes of the machine (``--pid=host``) and has five capabilities; the other containers need none.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal

from harness.clusters.conversation import Conversation, Unanswered
from harness.errors import EnvironmentLacking
from harness.record.clocks import monotonic_clock_name

from .engine import Box, ContainerError, Deployment
from .relay import Relay

OPTIONS: Final[dict[str, Any]] = {
    "pid_mode": "host",
    "cap_drop": ["ALL"],
    "cap_add": ["NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE", "KILL"],
}
PATIENCE: Final = 30.0
"""Time limit for an answer, seconds; answers usually take milliseconds."""
PART: Final = 1 << 18
"""Bytes of a recording in one answer."""
OTHER_MACHINE: Final = (
    "the engine runs on another machine, or in a virtual machine of this one: faults would be dated by another clock "
    "than calls. Run harness there, for example in a container that has the engine's socket"
)
PROXY_USER: Final = 65533
"""User id of a client's proxy, which distinguishes its connections from the client's own."""
Privilege = Literal["cgroups", "disks", "files"]
PRIVILEGES: Final[dict[Privilege, dict[str, Any]]] = {
    "cgroups": {"volumes": {"/sys/fs/cgroup": {"bind": "/cgroup", "mode": "rw"}}},
    "disks": {
        "cap_add": ["MKNOD", "SYS_CHROOT"],
        "device_cgroup_rules": ["b 7:* rwm", "c 10:237 rwm"],
        "security_opt": ["apparmor=unconfined"],
        "tmpfs": {"/disks": ""},
    },
    "files": {"cap_add": ["DAC_OVERRIDE"]},
}
"""Additional options for a helper that changes control groups; for one that makes disks: access to loop devices, and no
AppArmor profile, since Docker's forbids mounts in other containers even with the capabilities; and for one that changes
files of servers, or their memory through /proc, which may belong to other users."""


class Helper:
    """Requests to ``python -m harness.clusters.docker.helper``; see :mod:`harness.clusters.docker.helper.server`.
    A host is identified by its box. Requests raise ContainerError if the helper does not answer."""

    def __init__(self, deployment: Deployment, image: str, privileges: Collection[Privilege] = ()) -> None:
        options = {**OPTIONS}
        for privilege in sorted(privileges):
            more = PRIVILEGES[privilege]
            options |= more | {"cap_add": [*options["cap_add"], *more.get("cap_add", ())]}
        self._box = deployment.box("helper", image, "helper", **options)
        self._conversation = Conversation(
            lambda on_line, on_end: self._box.start(
                ["python3", "-m", "harness.clusters.docker.helper"], on_line, on_end=on_end
            ),
            lambda event: None,  # noqa: ARG005
        )

    @property
    def ip(self) -> str:
        """Address of the helper's own container."""
        return self._box.ip

    def relay(self) -> Relay:
        """Start a relay for connections to containers. Raises EnvironmentLacking."""
        return Relay(self._box)

    def greeting(self) -> tuple[str, int]:
        """(Text, port) of a greeting that the helper now sends to each connection to its address."""
        found: dict[str, Any] = self._ask("greet")
        return found["token"], found["port"]

    def check_machine(self) -> None:
        """Raise EnvironmentLacking if the engine's machine has another clock than this one."""
        there, here = self._ask("machine"), monotonic_clock_name()
        if there is None or there != here:
            raise EnvironmentLacking(OTHER_MACHINE)

    def watch_processors(self, boxes: Sequence[Box]) -> None:
        """Sample how long the programs of these containers wait for a processor."""
        self._ask("watch_processors", pids=[box.pid for box in boxes])

    def processor_waits(self) -> list[tuple[int, int]]:
        """End the sampling, and return the samples; see :class:`harness.clusters.abilities.hosts.ProcessorWaits`."""
        return [(at, wait) for at, wait in self._ask("processor_waits")]

    def filter(self, scripts: dict[Box, str]) -> None:
        """Apply nftables scripts, each in the network namespace of its box."""
        self._ask("filter", scripts={str(box.pid): script for box, script in scripts.items()})

    def ping(self, source: Box, address: str, timeout: float) -> float | None:
        """Round trip of an ICMP echo in seconds, ``None`` if no reply came in time."""
        trip: float | None = self._ask("ping", pid=source.pid, address=address, timeout=timeout, wait=timeout + 5)
        return trip

    def knock(
        self, source: Box, address: str, port: int, timeout: float, hello: bytes = b"", *, greets: bool = False
    ) -> float | None:
        """Seconds until a server answers ``hello`` (default: a Redis PING), ``None`` if it does not. The connection
        goes through the client's proxy, if any. A server that ``greets`` sends data first."""
        fields: dict[str, Any] = {"address": address, "port": port, "timeout": timeout}
        if hello:
            fields |= {"hello": hello.hex(), "greets": greets}
        trip: float | None = self._ask("knock", pid=source.pid, wait=2 * timeout + 5, **fields)
        return trip

    def connections(self, box: Box, addresses: list[tuple[str, int]]) -> int:
        """Number of connections of a box to these addresses, without those of its proxy."""
        count: int = self._ask("connections", pid=box.pid, addresses=addresses, without_user=PROXY_USER)
        return count

    def delay(self, box: Box, sources: dict[str, dict[str, Any]], seed: int) -> None:
        """Set how packets that arrive at a box are delayed, by source address; an empty dict ends it."""
        self._ask("shape", pid=box.pid, sources=sources, seed=seed)

    def exchange(self, source: Box, target: Box, count: int) -> dict[str, int]:
        """Send ``count`` datagrams from one box to another and count them; see
        :func:`harness.clusters.docker.helper.datagrams.exchange`."""
        counts: dict[str, int] = self._ask(
            "exchange", pid=source.pid, target=target.pid, address=target.ip, count=count
        )
        return counts

    def spare(self, box: Box, bystanders: list[int]) -> None:
        """Exempt only these processes of a box, and its idle first one, from :meth:`kill` and :meth:`members`."""
        self._ask("spare", pid=box.pid, pids=bystanders)

    def kill(self, box: Box, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Send SIGKILL to all processes in a box and wait until they have ended. ``meanwhile`` is called after the
        signal was sent: a paused process dies only when it is resumed."""
        self._ask("kill", pids=[box.pid], meanwhile=meanwhile)

    def terminate(self, box: Box) -> None:
        """Send SIGTERM to all processes in a box, and do not wait."""
        self._ask("terminate", pid=box.pid)

    def empty(self, boxes: Sequence[Box]) -> None:
        """Kill all processes in these boxes, also those that were spared."""
        for box in boxes:
            self.spare(box, [])
        self._ask("kill", pids=[box.pid for box in boxes])

    def members(self, box: Box) -> list[int]:
        """Process ids of a box, without its idle first process and those that are spared."""
        members: list[int] = self._ask("members", pid=box.pid)
        return members

    def disk(self, op: str, box: Box | None = None, **fields: Any) -> Any:
        """Perform an operation on the disk of a box, or on all disks; see
        :class:`harness.clusters.docker.helper.disks.ContainerDisks`."""
        return self._ask(op, **({} if box is None else {"pid": box.pid}), **fields)

    def load(self, box: Box, count: int) -> None:
        """Add busy processes that share the box's processor time; ``count`` 0 ends them."""
        if count:
            self._ask("load", pid=box.pid, count=count)
        else:
            self._ask("end_load", pid=box.pid)

    def move_clock(self, box: Box, offset_ns: int, rate: float, since_ns: int) -> None:
        """Set the box's wall clock ``offset_ns`` ahead of true time at ``since_ns`` (monotonic ns), gaining ``rate``
        seconds a second."""
        self._ask("clock", pids=[box.pid], offset_ns=offset_ns, rate=rate, since_ns=since_ns)

    def clock(self, box: Box) -> int:
        """Setting of a box's clock: ns ahead of true time."""
        offset: int = self._ask("offset", pid=box.pid)
        return offset

    def write(self, path: str, texts: dict[Box, str]) -> None:
        """Write a text for each box to the file at ``path`` in that box."""
        self._ask("write", path=path, texts={str(box.pid): text for box, text in texts.items()})

    def capture(self, box: Box, port: int) -> None:
        """Record the packets of a port of a box from now on; see
        :class:`harness.clusters.docker.helper.capture.Capture`."""
        self._ask("capture", pid=box.pid, port=port)

    def captured(self, box: Box) -> tuple[bytes, dict[str, int]]:
        """End the recording, and return it with what :meth:`~harness.clusters.docker.helper.capture.Capture.stop`
        returns."""
        found: dict[str, int] = self._ask("end_capture", pid=box.pid)
        parts: list[str] = [
            self._ask("captured", pid=box.pid, start=start, size=PART) for start in range(0, found["bytes"], PART)
        ]
        self._ask("forget_capture", pid=box.pid)
        return b"".join(map(base64.b64decode, parts)), found

    def close(self) -> None:
        self._conversation.close()

    def _ask(self, op: str, *, wait: float = PATIENCE, **fields: Any) -> Any:
        try:
            return self._conversation.ask(op, patience=wait, **fields)
        except Unanswered as error:
            raise ContainerError(f"the helper container does not work: {error}") from error
