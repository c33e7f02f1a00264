"""Execution of steps on a real or simulated ensemble, with answers that can be compared.

zxids are relative to the first one of the epoch, epochs are numbered in order, sessions are replaced by their number,
and times by 0.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

from harness.fidelity.comparison import Step
from harness.fidelity.members import Members, no_answer, wait_until

from .client import OperationReply, Ops, RawZooKeeperClient, SocketStream, Stat, WatchEvent, status
from .steps import EPHEMERAL, ROOT, SESSIONS, TOP

MARKER: Final = f"{TOP}/session"
"""Ephemeral node of a session that shall expire. It is gone as soon as the session has expired."""
SHORT_MS: Final = 1
"""Requested time-out of a session that shall expire. The server takes its minimum."""
TIMEOUT_MS: Final = 40_000
"""Requested time-out of other sessions, which a slow machine must not miss."""
SEQUENCE_BITS: Final = 32


class Player:
    """Executes steps in three sessions, which are connected to the same member."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._home = 0
        self.clients: list[RawZooKeeperClient] = []
        self._ended: list[RawZooKeeperClient] = []
        self._owners: list[int] = []
        self._epochs: dict[int, int] = {}
        self._latest = (0, 0)

    def run(self, steps: Iterable[Step]) -> Generator[str, None, None]:
        """Empty the server, and yield the answers to each step. The last answer says why there are no more."""
        try:
            self._begin()
            for step in steps:
                try:
                    answer = repr(self._answers(*step))
                except (OSError, AssertionError, struct.error) as error:
                    yield no_answer(error)
                    return
                yield answer
        finally:
            for client in self.clients:
                _close(client)

    def _begin(self) -> None:
        self.clients = [self._new_session() for _ in range(SESSIONS)]
        self._clean(TOP)
        self._create_root()

    def _create_root(self) -> None:
        self.clients[0]("create", TOP, b"", 0)
        self.clients[0]("create", ROOT, b"", 0)
        self._epochs = {self.clients[0].zxid >> SEQUENCE_BITS: self.clients[0].zxid}
        self._latest = (0, 0)

    def _clean(self, path: str) -> None:
        names = self.clients[0]("children", path, None)
        if isinstance(names, list):
            for name in names:
                self._clean(f"{path}/{name}")
            self.clients[0]("delete", path, -1)

    # Connections.

    def _connect(self, **session: Any) -> RawZooKeeperClient:
        stream = SocketStream(self._members.addresses[self._home])
        return RawZooKeeperClient(stream, **{"timeout": TIMEOUT_MS, **session})

    def _serving(self, **session: Any) -> RawZooKeeperClient:
        """Connect as soon as the member serves clients and has caught up with what the session has seen."""
        found: list[RawZooKeeperClient] = []

        def connect() -> bool:
            if not status(self._members.addresses[self._home]):
                return False
            try:
                client = self._connect(**session)
            except OSError:
                return False
            if not client.connected:
                client.stream.close()
                return False
            found.append(client)
            return True

        wait_until(connect, "a connection to ZooKeeper")
        return found[0]

    def _new_session(self) -> RawZooKeeperClient:
        client = self._serving()
        self._owners.append(client.session)
        return client

    def _moved(self, client: RawZooKeeperClient, **options: Any) -> RawZooKeeperClient:
        """Return a new connection of the same session."""
        client.stream.close()
        moved = self._serving(session=client.session, password=client.password, seen=client.zxid, **options)
        assert moved.session == client.session
        return moved

    # Steps.

    def _answers(self, what: str, *arguments: Any) -> list[Any]:
        handlers: dict[str, Callable[..., list[Any]]] = {
            "send": self._send, "move": self._move, "close": self._close, "reopen": self._reopen,
            "expire": self._expire, "pause": self._pause, "restart": self._restart,
        }  # fmt: skip
        answers = handlers[what](*arguments)
        for client in self.clients:
            client.send(("ping",))
            answers.append(self._comparable(client.read_replies()))
        return answers

    def _send(self, session: int, *operations: Ops) -> list[Any]:
        self.clients[session].send(*operations)
        return [self._comparable(self.clients[session].read_replies())]

    def _move(self, session: int, *paths: list[str]) -> list[Any]:
        self.clients[session] = moved = self._moved(self.clients[session])
        moved.send(("setwatches", moved.zxid, *paths))
        return [self._comparable(moved.read_replies())]

    def _close(self, session: int) -> list[Any]:
        client = self.clients[session]
        client.send(("close",))
        answers = self._comparable([*client.read_replies(), client.next()])
        self._replace(session)
        return [answers]

    def _replace(self, session: int) -> None:
        self.clients[session].stream.close()
        self._ended.append(self.clients[session])
        self.clients[session] = self._new_session()

    def _reopen(self, session: int) -> list[Any]:  # noqa: ARG002 - the step names one, as the others do
        if not self._ended:
            return []
        gone = self._ended[-1]
        again = self._connect(session=gone.session, password=gone.password, seen=gone.zxid)
        answer = again.timeout, again.session, again.password, again.next()
        again.stream.close()
        return [answer]

    def _expire(self, session: int) -> list[Any]:
        answers = [self.clients[session]("create", MARKER, b"", EPHEMERAL)]
        self._moved(self.clients[session], timeout=SHORT_MS).stream.close()
        others = [client for number, client in enumerate(self.clients) if number != session]
        events: list[list[Any]] = [[] for _ in others]

        def expired() -> bool:
            found: Any = None
            for client, seen in zip(others, events, strict=True):
                client.send(("exists", MARKER, None))
                received = client.read_replies()
                seen += [item for item in received if not isinstance(item, OperationReply)]
                found = received[-1]
            return not isinstance(found, OperationReply) or found.code != 0

        wait_until(expired, "the end of a session")
        expired()  # one was asked before the end, another after it
        self._replace(session)
        return [*answers, events, *self._reopen(session)]

    def _pause(self, session: int, *operations: Ops) -> list[Any]:
        self._members.pause(self._home)
        self.clients[session].send(*operations)
        self._members.resume(self._home)
        return [self._comparable(self.clients[session].read_replies())]

    def _restart(self, data: str) -> list[Any]:
        """Restart the server or, of several, the leader. The sessions of all servers reconnect."""
        for client in self.clients:
            client.stream.close()
        if len(self._members.addresses) > 1:
            self._restart_leader()
        else:
            self._members.kill(self._home)
            if data == "without data":
                return self._start_empty(self._home)
            self._members.start(self._home, with_data=True)
        self.clients = [self._moved(client) for client in self.clients]
        return []

    def _restart_leader(self) -> None:
        """Kill the leader, start it again when there is another, and wait until it follows."""
        leader = self._leader()
        self._members.kill(leader)
        self._home = self._leader()
        self._members.start(leader, with_data=True)
        address = self._members.addresses[leader]
        wait_until(lambda: bool(status(address)), "a restarted ZooKeeper server")

    def _leader(self) -> int:
        found: list[int] = []

        def is_found() -> bool:
            found[:] = [
                number for number, address in enumerate(self._members.addresses) if "Mode: leader" in status(address)
            ]
            return len(found) > 0

        wait_until(is_found, "a leader of ZooKeeper")
        return found[0]

    def _start_empty(self, member: int) -> list[Any]:
        self._members.start(member, with_data=False)
        self._ended, old = [], self.clients
        self.clients = [self._new_session() for _ in range(SESSIONS)]
        answers = []
        for client in old:
            again = self._connect(session=client.session, password=client.password, seen=client.zxid)
            answers.append((again.connected, again.session, again.next()))
            again.stream.close()
        self._create_root()
        return answers

    # Comparison.

    def _zxid(self, zxid: int) -> tuple[int, int]:
        """Return (number of the epoch, number of the transaction in it)."""
        epoch = zxid >> SEQUENCE_BITS
        if zxid == epoch << SEQUENCE_BITS and epoch not in (0, *list(self._epochs)[:1]):
            return self._latest  # a real leader begins an epoch without a transaction, the simulated one with the first
        base = self._epochs.setdefault(epoch, epoch << SEQUENCE_BITS)
        found = list(self._epochs).index(epoch), zxid - base
        self._latest = max(self._latest, found)
        return found

    def _owner(self, owner: int) -> int:
        """Return a session's number, from 1; a container's owner, the smallest number, and 0 stay as they are."""
        return self._owners.index(owner) + 1 if owner > 0 else owner

    def _comparable(self, item: Any) -> Any:
        match item:
            case Stat():
                relative = {name: self._zxid(getattr(item, name)) for name in ("czxid", "mzxid", "pzxid")}
                return {**item._asdict(), **relative, "owner": self._owner(item.owner), "ctime": 0, "mtime": 0}
            case list():
                return [self._comparable(each) for each in item]
            case OperationReply():
                return item.op, item.code, self._zxid(item.zxid), self._comparable(item.value)
            case tuple() if not isinstance(item, WatchEvent):
                return tuple([self._comparable(each) for each in item])
        return item


def _close(client: RawZooKeeperClient) -> None:
    """End a session, so that it does not expire during the next sequence, if its server answers."""
    with contextlib.suppress(OSError, AssertionError):
        client("close")
    client.stream.close()
