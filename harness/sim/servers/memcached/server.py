"""A simulated memcached 1.6.18 server: the service with its connections, start and stop.

A kill loses all items, because memcached has no disk. Abstracted: worker threads (commands of all connections are
executed one after the other), UDP, SASL, TLS, limits on connections. Commands are in
:mod:`harness.sim.servers.memcached.commands`, items in :mod:`harness.sim.servers.memcached.store`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.sim.service import Conn, ServiceHost

from .commands import BAD_LINE, BINARY, END, FETCHING, VERSION, CommandHandler, DataBlock, lacking
from .store import DEFAULT_MB, SMALLEST_CHUNK, ItemStore

MAX_LINE_LENGTH: Final = 2048
"""Bytes without a line end after which a connection is closed, unless they are a long list of keys to get."""

OnCommand = Callable[[str, str], None]


@dataclass(slots=True)
class _MemcachedConnection:
    input: bytes = b""
    taken: int = 0
    """Bytes of ``input`` that were taken already."""
    block: DataBlock | None = None
    """The command that waits for its data."""

    def add(self, data: bytes) -> None:
        self.input, self.taken = self.input[self.taken :] + data, 0

    def take(self) -> bytes | None:
        """Return the data of the open block, else the next line, each with its end; None if it is incomplete."""
        begin = self.taken
        end = self.input.find(b"\n", begin) + 1 if self.block is None else begin + self.block.length + 2
        if not end or len(self.input) < end:
            return None
        self.taken = end
        return self.input[begin:end]

    def line_is_too_long(self) -> bool:
        rest = self.input[self.taken :]
        long = self.block is None and len(rest) > MAX_LINE_LENGTH
        return long and not rest.lstrip(b" ").startswith((b"get ", b"gets "))


class MemcachedServer:
    """The server's :class:`~harness.sim.service.Service`. ``memory`` is in megabytes, ``smallest_chunk`` in bytes.

    ``on_command`` is called with (client host, command name in upper case) for each executed command, before its
    answer is sent. It may kill this server.
    """

    def __init__(self, *, port: int = 11211, memory: int = DEFAULT_MB, smallest_chunk: int = SMALLEST_CHUNK) -> None:
        self.port = port
        self.memory = memory
        self.smallest_chunk = smallest_chunk
        self.on_command: OnCommand | None = None
        self._host: ServiceHost | None = None
        self._commands: CommandHandler | None = None

    # Start and stop

    def start(self, host: ServiceHost, *, wiped: bool) -> None:  # noqa: ARG002
        self._host = host
        self._commands = CommandHandler(
            ItemStore(self.memory, self.smallest_chunk, host.monotonic_ns(), host.wall_ns())
        )
        host.log(f"memcached {VERSION}: {self.memory} MB, port {self.port}, empty")

    def stop(self) -> None:
        self._commands = None

    @property
    def store(self) -> ItemStore:
        """The items of the running process."""
        assert self._commands is not None, "it does not run"
        return self._commands.store

    def size(self) -> int:
        """Return the number of keys, including expired ones that have not been removed yet."""
        return 0 if self._commands is None else len(self._commands.store.items)

    def peek(self, key: bytes) -> tuple[bytes, int | None] | None:
        """Return (value, ns until the expiry or None) of a live item, for observers; None if there is none."""
        if self._commands is None or self._host is None:
            return None
        return self._commands.store.look_up(key, self._host.monotonic_ns())

    # Connections

    def opened(self, conn: Conn) -> None:
        conn.session = _MemcachedConnection()

    def closed(self, conn: Conn) -> None: ...

    def received(self, conn: Conn, data: bytes) -> None:
        session: _MemcachedConnection = conn.session
        commands, host = self._commands, self._host
        assert commands is not None
        assert host is not None
        if not session.input and data.startswith(BINARY):
            host.lacks(conn.peer, "the binary protocol of memcached")
        session.add(data)
        commands.store.tick(host.monotonic_ns())
        answers: list[bytes] = []
        flushed = 0  # so many answers have left the process
        while commands is self._commands and (taken := session.take()) is not None:
            if session.block is not None:
                block, session.block = session.block, None
                answers.append(commands.store_block(block, taken))
                self._report(conn, block.command)
                continue
            words = [word for word in taken[:-1].removesuffix(b"\r").split(b" ") if word]
            if words[:1] == [b"quit"]:
                self._close(conn, answers)
                return
            if what := lacking(words):
                host.lacks(conn.peer, f"the memcached command {what}")
            answer = commands.execute(words)
            if isinstance(answer, DataBlock):
                session.block = answer
                continue
            if words and words[0] in FETCHING and answer == BAD_LINE:
                del answers[flushed:]  # as memcached: a key that is too long also discards the unsent answers
            answers.append(answer)
            if words:
                self._report(conn, words[0])
                if words[0] in FETCHING and answer.endswith(END):
                    flushed = len(answers)
        if commands is not self._commands:
            return
        if session.line_is_too_long():
            self._close(conn, answers)
        elif any(answers):
            conn.send(b"".join(answers))

    def _report(self, conn: Conn, command: bytes) -> None:
        if self.on_command is not None:
            self.on_command(conn.peer, command.decode(errors="replace").upper())

    @staticmethod
    def _close(conn: Conn, answers: list[bytes]) -> None:
        if any(answers):
            conn.send(b"".join(answers))
        conn.close()
