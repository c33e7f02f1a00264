"""A memcached 1.6.18 in the simulator: the service, its connections, start and stop.

Everything is lost at a kill, whatever became of the disk: there is none. Abstracted: worker threads (commands of all
connections are executed one after the other), UDP, SASL, TLS, limits on connections; see also the two modules that do
the work, :mod:`harness.sim.servers.memcached.commands` and :mod:`harness.sim.servers.memcached.store`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.sim.servers.memcached.commands import VERSION, Block, Commands
from harness.sim.servers.memcached.store import DEFAULT_MB, SMALLEST, Store
from harness.sim.service import Conn, ServiceHost

LONGEST_LINE: Final = 2048
"""Bytes without an end after which a connection is closed, unless it is a long list of keys to get."""

Tap = Callable[[str, str], None]


@dataclass(slots=True)
class _Session:
    input: bytes = b""
    block: Block | None = None


class MemcachedServer:
    """``memory`` is in megabytes, ``smallest_chunk`` in bytes. ``on_command`` is called with the peer and the command's
    name in capitals after each command that was executed, before its answer leaves. It may end this server."""

    def __init__(self, *, port: int = 11211, memory: int = DEFAULT_MB, smallest_chunk: int = SMALLEST) -> None:
        self.port = port
        self.memory = memory
        self.smallest_chunk = smallest_chunk
        self.on_command: Tap | None = None
        self._host: ServiceHost | None = None
        self._commands: Commands | None = None

    # Life

    def start(self, host: ServiceHost, *, wiped: bool) -> None:  # noqa: ARG002
        self._host = host
        self._commands = Commands(Store(self.memory, self.smallest_chunk, host.monotonic_ns(), host.wall_ns()))
        host.log(f"memcached {VERSION}: {self.memory} MB, port {self.port}, empty")

    def stop(self) -> None:
        self._commands = None

    def size(self) -> int:
        """How many keys there are, expired ones that nobody has met among them."""
        return 0 if self._commands is None else len(self._commands.store.items)

    def peek(self, key: bytes) -> tuple[bytes, int | None] | None:
        """What a live item holds and how many ns it has left, None if it has no end; disturbs nothing."""
        if self._commands is None or self._host is None:
            return None
        return self._commands.store.peek(key, self._host.monotonic_ns())

    # Connections

    def opened(self, conn: Conn) -> None:
        conn.session = _Session()

    def closed(self, conn: Conn) -> None: ...

    def received(self, conn: Conn, data: bytes) -> None:
        session: _Session = conn.session
        session.input += data
        commands, host = self._commands, self._host
        assert commands is not None
        assert host is not None
        commands.store.tick(host.monotonic_ns())
        answers: list[bytes] = []
        input_, at = session.input, 0
        while commands is self._commands:
            if session.block is not None:
                end = at + session.block.length + 2
                if len(input_) < end:
                    break
                block, session.block = session.block, None
                answers.append(commands.store_block(block, input_[at:end]))
                at = end
                self._executed(conn, block.command)
                continue
            end = input_.find(b"\n", at)
            if end < 0:
                if len(input_) - at > LONGEST_LINE and not input_[at:].lstrip(b" ").startswith((b"get ", b"gets ")):
                    self._leave(conn, answers)
                    return
                break
            words = input_[at:end].removesuffix(b"\r").split(b" ")
            at = end + 1
            words = [word for word in words if word]
            if words[:1] == [b"quit"]:
                self._leave(conn, answers)
                return
            answer = commands.line(words)
            if isinstance(answer, Block):
                session.block = answer
                continue
            answers.append(answer)
            if words:
                self._executed(conn, words[0])
        if commands is self._commands:
            session.input = input_[at:]
            if any(answers):
                conn.send(b"".join(answers))

    def _executed(self, conn: Conn, command: bytes) -> None:
        if self.on_command is not None:
            self.on_command(conn.peer, command.decode(errors="replace").upper())

    @staticmethod
    def _leave(conn: Conn, answers: list[bytes]) -> None:
        if any(answers):
            conn.send(b"".join(answers))
        conn.close()
