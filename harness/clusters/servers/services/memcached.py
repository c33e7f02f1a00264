"""A memcached that the user runs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO, ClassVar
from urllib.parse import unquote

from harness.clusters.key_watch import KeyReader
from harness.clusters.servers.adapter import PATIENCE_S, PREFIX, SHOWN, NoAnswerError, OwnServer


class MemcachedServer(OwnServer):
    """See :class:`harness.clusters.servers.adapter.OwnServer`. It lists its keys with ``lru_crawler metadump``."""

    HELLO: ClassVar[bytes] = b"get ".ljust(62, b"x") + b"\r\n"

    @contextmanager
    def _stream(self) -> Iterator[BinaryIO]:
        try:
            with socket.create_connection((self.host, self.port), PATIENCE_S) as connection:
                yield connection.makefile("rwb")  # type: ignore[misc]
        except OSError as error:
            raise NoAnswerError(f"the memcached at {self.host}:{self.port}: {error}") from error

    def _lines(self, command: str, *ends: bytes) -> list[bytes]:
        """Return the lines that answer a command, up to one that begins with one of ``ends``."""
        found: list[bytes] = []
        with self._stream() as stream:
            stream.write(f"{command}\r\n".encode())
            stream.flush()
            while line := stream.readline():
                if line.startswith((*ends, b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"BUSY")):
                    if not line.startswith(ends):
                        raise NoAnswerError(f"the memcached at {self.host}:{self.port}: {command}: {line.decode()}")
                    return [*found, line.rstrip()]
                found.append(line.rstrip())
        raise NoAnswerError(f"the memcached at {self.host}:{self.port} ended the connection after {command}")

    def _stats(self) -> dict[bytes, bytes]:
        words = (line.split(b" ", 2) for line in self._lines("stats", b"END"))
        return {word[1]: word[2] for word in words if len(word) == 3}

    def version(self) -> str:
        return f"memcached {self._stats()[b'version'].decode()}"

    def identity(self) -> str:
        stats = self._stats()
        began = int(stats[b"time"]) - int(stats[b"uptime"])
        return f"{stats[b'pid'].decode()} {began}"

    def _keys(self) -> Iterator[str]:
        for line in self._lines("lru_crawler metadump all", b"END"):
            if line.startswith(b"key="):
                yield unquote(line.partition(b" ")[0].removeprefix(b"key=").decode(errors="replace"))

    def foreign_keys(self) -> list[str]:
        return [key for key in self._keys() if key.startswith(PREFIX)][:SHOWN]

    def remove_keys(self, run: str) -> int:
        found = {key for key in self._keys() if run in key}
        for key in found:
            self._lines(f"delete {key}", b"DELETED", b"NOT_FOUND")
        return len(found)

    def key_reader(self) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.memcached import MemcachedKeyReader

        return partial(MemcachedKeyReader, self.host, self.port)
