"""Connections of the control side to programs in containers, through the engine: for a control side that has no route
to the containers' addresses. See :mod:`harness.clusters.docker.helper.relay`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final

from harness.clusters.docker.helper.multiplexer import BrokenCarrier, Multiplexer
from harness.clusters.docker.helper.relay import TARGET
from harness.errors import EnvironmentLacking

from .channel import HEADER, STDERR, socket_of
from .engine import Box

COMMAND: Final = ["python3", "-m", "harness.clusters.docker.helper.relay"]
READY_S: Final = 30.0
"""Seconds within which the relay must work after its start."""
RECEIVED: Final = 1 << 16
LOOPBACK_DOWN: Final = "the loopback interface is down in this network namespace: ip link set lo up"


class ExecCarrier:
    """Carrier of :class:`~harness.clusters.docker.helper.multiplexer.Multiplexer` on the stdin and stdout of a program
    in a container. ``errors`` are the last lines of its stderr."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._sending = sock.dup()  # a selector takes each descriptor once
        self._received = bytearray()
        self._stderr = bytearray()

    @property
    def errors(self) -> list[str]:
        return self._stderr.decode(errors="replace").splitlines()[-3:]

    def reading(self) -> int:
        return self._socket.fileno()

    def writing(self) -> int:
        return self._sending.fileno()

    def receive(self) -> bytes | None:
        try:
            data = self._socket.recv(RECEIVED)
        except BlockingIOError:
            return b""
        if not data:
            return None
        self._received += data
        return self._unpack()

    def _unpack(self) -> bytes:
        """Return what came on stdout, out of the engine's frames (Docker Engine API, "attach")."""
        output = bytearray()
        start = 0
        while len(self._received) - start >= HEADER.size:
            which, size = HEADER.unpack_from(self._received, start)
            end = start + HEADER.size + size
            if len(self._received) < end:
                break
            (self._stderr if which == STDERR else output).extend(self._received[start + HEADER.size : end])
            start = end
        del self._received[:start], self._stderr[:-4096]
        return bytes(output)

    def send(self, data: memoryview) -> int:
        return self._sending.send(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._sending.close()
        self._socket.close()


class Relay:
    """Listens on loopback for each container's program that is asked for, and passes the connections on to the relay
    program in the container ``box``. Raises EnvironmentLacking if it does not start.

    ``lost`` is the reason for which it ended without :meth:`close`, empty if it did not.
    """

    def __init__(self, box: Box) -> None:
        api = box.client.api
        raw = api.exec_start(api.exec_create(box.id, COMMAND, stdin=True)["Id"], socket=True)
        self._raw = raw  # keeps the connection open
        self._carrier = ExecCarrier(socket_of(raw))
        self._ends = Multiplexer(self._carrier)
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="relay", daemon=True)
        self.lost = ""
        self._thread.start()
        try:
            self._await_start()
        except BaseException:
            self.close()
            raise

    def address(self, pid: int, ip: str, port: int) -> tuple[str, int]:
        """Return the loopback address that stands for an address in the network of the process ``pid``. Raises
        ConnectionError once the relay has ended."""
        return self._ends.listen(TARGET.pack(pid, socket.inet_aton(ip), port))

    def close(self) -> None:
        self._closed = True
        self._ends.stop()
        self._thread.join(READY_S)
        self._carrier.close()
        with contextlib.suppress(OSError):
            self._raw.close()

    def _await_start(self) -> None:
        if not self._ends.ready.wait(READY_S) or self.lost:
            reason = self.lost or f"no answer within {READY_S:g} s"
            raise EnvironmentLacking(f"the relay in the helper container does not start: {reason}")
        # A connection that is accepted, and refused at the other end, shows that loopback works.
        try:
            socket.create_connection(self.address(1, "0.0.0.0", 0), READY_S).close()
        except ConnectionResetError:
            pass
        except OSError as error:
            raise EnvironmentLacking(f"{LOOPBACK_DOWN} ({error})") from error

    def _serve(self) -> None:
        reason = ""
        try:
            self._ends.serve()
        except BrokenCarrier as error:
            reason = str(error)
        if not self._closed:
            said = " | ".join(self._carrier.errors)
            self.lost = reason or said or "its program has ended"
            self._ends.ready.set()
