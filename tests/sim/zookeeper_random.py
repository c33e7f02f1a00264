"""Random operations of several ZooKeeper sessions, whose results do not depend on the clock or on chance."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.sim.zookeeper_client import OperationReply, Ops, RawZooKeeperClient, Stat, WatchEvent

TOP = "/r"
ROOT = "/r/t"
NAMES = ["a", "b", "c", "Aa", "BB", "x-", "lock-", "ünï", "AaAa", "BBBB"]
ODD = [
    "", "r/t", "/r/t/a/", "/r/t//a", "/r/t/./a", "/r/t/../a", "/r/t/a\x01", "/", "/zookeeper", "/zookeeper/quota",
    "/r/t/a\x7f",
]  # fmt: skip
DATA = [b"", b"x", b"hello", bytes(range(40)), None]
VERSIONS = [-1, -1, -1, 0, 0, 1, 2, 3, 7, -2]
READS = ["exists", "exists", "get", "get", "children", "children", "children2", "getacl"]
SESSIONS = 3


class ZooKeeperOperationGenerator:
    """Generates steps from a seed: (session number, action, operations).

    Actions: "burst" (send the operations in one piece), "move" (a new connection of the same session, which sets its
    watches again), "leave" (close the session and open another) and "reopen" (try to resume a closed session).
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def step(self) -> tuple[int, str, list[Ops]]:
        session, chance = self.rng.randrange(SESSIONS), self.rng.random()
        if chance < 0.015:
            return session, "leave", []
        if chance < 0.03:
            return session, "reopen", []
        if chance < 0.06:
            return session, "move", [("setwatches", *[self.paths() for _ in range(3)])]
        return session, "burst", [self.op() for _ in range(self.rng.choice([1, 1, 1, 2, 3, 6]))]

    def paths(self) -> list[str]:
        return [self.path() or ROOT for _ in range(self.rng.randrange(4))]

    def path(self) -> str:
        if self.rng.random() < 0.02:
            return self.rng.choice(ODD)
        depth = self.rng.choice([0, 1, 1, 1, 2, 2, 3])
        names = [self.rng.choice(NAMES[:5] if self.rng.random() < 0.7 else NAMES) for _ in range(depth)]
        if names and self.rng.random() < 0.15:
            names[-1] += f"{self.rng.randrange(6):010d}"
        return "/".join([ROOT, *names])

    def recent_path(self) -> str:
        """Return a path that was created in this run; older nodes have another history on a real server."""
        path = self.path()
        return ROOT if path == "/" or path.startswith("/z") else path

    def write(self) -> Ops:
        match self.rng.choice(["create", "create", "create", "create2", "delete", "delete", "set", "setacl"]):
            case "create" | "create2" as op:
                flags = self.rng.choice([0, 0, 0, 1, 1, 2, 3, 3])
                return op, self.recent_path() if flags >= 2 else self.path(), self.rng.choice(DATA), flags
            case "delete":
                return "delete", self.path(), self.rng.choice(VERSIONS)
            case "set":
                return "set", self.recent_path(), self.rng.choice(DATA), self.rng.choice(VERSIONS)
            case op:
                return op, self.recent_path(), self.rng.choice(VERSIONS)

    def op(self) -> Ops:
        chance = self.rng.random()
        if chance < 0.45:
            return self.write()
        if chance < 0.53:
            parts = [
                part for part in [self.write() for _ in range(self.rng.randrange(5))] if part[0] != "setacl" and part[1]
            ]
            if self.rng.random() < 0.5:
                parts.insert(0, ("check", self.recent_path() or ROOT, self.rng.choice(VERSIONS)))
            return "multi", parts
        if chance < 0.57:
            return "sync", self.path()
        if chance < 0.6:
            return ("ping",)
        op, path = self.rng.choice(READS), self.recent_path()
        return (op, path) if op == "getacl" else (op, path, self.rng.choice([None, "watch"]))


class OperationRunner:
    """Executes steps on a server and returns comparable results.

    zxids are relative to the first one, sessions are replaced by their number, times by 0.
    """

    def __init__(self, connect: Any) -> None:
        """``connect(**session)`` returns a :class:`RawZooKeeperClient`."""
        self.connect = connect
        self.clients: list[RawZooKeeperClient] = [connect() for _ in range(SESSIONS)]
        self.ended: list[RawZooKeeperClient] = []
        self.owners: list[int] = [client.session for client in self.clients]
        self._clean(TOP)
        self.clients[0]("create", TOP, b"", 0)
        self.clients[0]("create", ROOT, b"", 0)
        self.base = self.clients[0].zxid

    def _clean(self, path: str) -> None:
        names = self.clients[0]("children", path, None)
        if isinstance(names, list):
            for name in names:
                self._clean(f"{path}/{name}")
            self.clients[0]("delete", path, -1)

    def step(self, session: int, what: str, ops: list[Ops]) -> list[Any]:
        results: list[Any] = []
        client = self.clients[session]
        match what:
            case "burst":
                client.send(*ops)
                results.append(self._comparable(client.read_replies()))
            case "move":
                client.stream.close()
                moved = self.connect(session=client.session, password=client.password, seen=client.zxid)
                assert moved.session == client.session
                op, *paths = ops[0]
                moved.send((op, client.zxid, *paths))
                self.clients[session] = moved
                results.append(self._comparable(moved.read_replies()))
            case "leave":
                client.send(("close",))
                results.append(self._comparable([*client.read_replies(), client.next()]))
                self.ended.append(client)
                self.clients[session] = new = self.connect()
                self.owners.append(new.session)
            case "reopen" if self.ended:
                gone = self.ended[-1]
                again = self.connect(session=gone.session, password=gone.password, seen=gone.zxid)
                results.append((again.timeout, again.session, again.password, again.next()))
        for each in self.clients:
            each.send(("ping",))
            results.append(self._comparable(each.read_replies()))
        return results

    def _comparable(self, item: Any) -> Any:
        match item:
            case Stat():
                return item._replace(
                    czxid=item.czxid - self.base, mzxid=item.mzxid - self.base, pzxid=item.pzxid - self.base,
                    owner=item.owner and self.owners.index(item.owner) + 1, ctime=0, mtime=0,
                )  # fmt: skip
            case list():
                return [self._comparable(each) for each in item]
            case OperationReply():
                return item._replace(zxid=item.zxid - self.base, value=self._comparable(item.value))
            case tuple() if not isinstance(item, WatchEvent):
                return tuple([self._comparable(each) for each in item])
        return item
