"""A server of a ZooKeeper ensemble that the user runs."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError, NotEmptyError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from harness.clusters.key_readers.zookeeper import ZooKeeperKeyReader
from harness.clusters.key_watch import KeyReader
from harness.clusters.servers.adapter import PATIENCE_S, PREFIX, SHOWN, NoAnswerError, OwnServer
from harness.clusters.servers.addresses import ServerAddress

RESERVED: Final = "/zookeeper"
LOCKS: Final = "/locks"
"""The node below which our locks have theirs."""
_VERSION: Final = re.compile(rb"Zookeeper version: (\d[\w.]*)")


class ZooKeeperServer(OwnServer):
    """See :class:`harness.clusters.servers.adapter.OwnServer`. Its keys are nodes. The node above
    them is removed too if it is new and empty."""

    HELLO: ClassVar[bytes] = b"srvr"

    def __init__(self, address: ServerAddress) -> None:
        super().__init__(address)
        self._before: frozenset[str] = frozenset()

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        never = KazooRetry(max_tries=0)
        client = KazooClient(f"{self.host}:{self.port}", connection_retry=never, command_retry=never)
        try:
            client.start(timeout=PATIENCE_S)
            yield client
        except (KazooException, KazooTimeoutError, OSError) as error:
            raise NoAnswerError(f"the ZooKeeper at {self.host}:{self.port}: {error or type(error).__name__}") from error
        finally:
            client.stop()
            client.close()

    def _said(self) -> bytes:
        """Return the answer to the command ``srvr``, which servers allow unless they are told otherwise."""
        try:
            with socket.create_connection((self.host, self.port), PATIENCE_S) as connection:
                connection.sendall(b"srvr")
                return b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError as error:
            raise NoAnswerError(f"the ZooKeeper at {self.host}:{self.port}: {error}") from error

    def version(self) -> str:
        found = _VERSION.search(self._said())
        return f"zookeeper {found[1].decode()}" if found else "zookeeper"

    def identity(self) -> str:
        """Return "": a server does not say which one it is."""
        return ""

    def _paths(self, client: KazooClient, path: str = "/") -> Iterator[str]:
        """Yield the paths of all nodes below one, children before their parents."""
        try:
            children = client.get_children(path)
        except NoNodeError:
            return
        for child in children:
            below = f"{path.rstrip('/')}/{child}"
            if below != RESERVED:
                yield from self._paths(client, below)
                yield below

    def remember(self) -> None:
        with self._client() as client:
            self._before = frozenset(self._paths(client))

    def foreign_keys(self) -> list[str]:
        with self._client() as client:
            return [path for path in self._paths(client) if f"/{PREFIX}" in path][:SHOWN]

    def remove_keys(self, run: str) -> int:
        with self._client() as client:
            own = [path for path in self._paths(client) if run in path]
            for path in own:
                _delete(client, path)
            if LOCKS not in self._before:
                _delete(client, LOCKS)
            return len(own)

    def key_reader(self) -> Callable[[], KeyReader]:
        return partial(ZooKeeperKeyReader, self.host, self.port)


def _delete(client: KazooClient, path: str) -> None:
    """Delete a node that has no children."""
    try:
        client.delete(path)
    except (NoNodeError, NotEmptyError):
        return
