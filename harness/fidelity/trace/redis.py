"""The simulated Redis as the specification of a recorded one.

The moment of a command is known as an interval only, and with it the expiry of a key that the command sets. The
simulated server executes it at the latest reading of the clock, and a later command may see the clock by as much
earlier or later as the key's expiry is uncertain. So a reply is possible if it is for some moments within the
intervals; whether several replies need different moments of one command is not checked.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

from harness.clusters.kinds.redis import CLUSTER, SENTINEL
from harness.clusters.wire import WireRecording
from harness.fidelity.simulated import SteppedConnection
from harness.protocols.messages import Reply, Request
from harness.protocols.redis import SUBSCRIPTIONS, RedisParser, split_replies
from harness.protocols.redis_replies import UNORDERED, replies
from harness.sim.servers.redis.engine import runs_while_loading
from harness.sim.servers.redis.expiry import end_timed_out_waits
from harness.sim.servers.redis.keys import snapshot_of
from harness.sim.servers.redis.protocol import LOADING, encode_command
from harness.sim.servers.redis.server import RedisServer
from harness.sim.servers.redis.state import MAY_BLOCK, NS_PER_MS, ClientState

from .clock import ServerClock
from .conversation import Conversation, Life, Limit, in_order
from .service import Service
from .specification import Moment, SteppedSpecification

UNSPECIFIED: Final = frozenset(
    b"hello info client command config dbsize randomkey scan role memory lastsave slowlog latency debug object "
    b"wait".split()
)
"""Commands about the process, its replicas, or keys that have expired and are not deleted yet: only errors are
compared."""
REPLICA: Final = frozenset({b"psync", b"replconf"})
HELLO: Final = b"__sentinel__:hello"
"""Channel on which sentinels tell each other of themselves."""
DEMOTION: Final = frozenset({b"replicaof", b"slaveof"})
FIRST_PRIMARY: Final = "n1"
"""Host that is the primary until a failover."""
TRANSACTIONS: Final = frozenset({b"multi", b"watch"})
_ECHO: Final = encode_command([b"echo", b"wait"])
"""Command that stands for WAIT, since the simulated server has no replicas."""
_NUMBER: Final = re.compile(rb":(-?\d+)\r\n")
_DATE: Final = re.compile(rb"\*2\r\n\$\d+\r\n(\d+)\r\n\$\d+\r\n(\d+)\r\n")
_ID: Final = re.compile(rb"\$2\r\nid\r\n:(\d+)")
"""Id of the client, in the reply to HELLO."""
FIRST_ID: Final = 3
"""Id of the first client of a Redis 7.0."""
EVICTS: Final = "a server with maxmemory evicts keys at random"
WHILE_LOADING: Final = -1
"""Choice of a request that the server refuses since it still loads its data."""
MOST_KEYS: Final = 20
"""Number of keys with an expiry up to which each is considered for a command that does not name it."""
Key = tuple[int, bytes]
"""Number of a database, and a key in it."""


class RedisSpecification(SteppedSpecification[SteppedConnection]):
    """How a search drives the simulated Redis, with the ``persistence`` of the real server."""

    def __init__(self, clock: ServerClock, persistence: str = "always") -> None:
        super().__init__()
        self._clock = clock
        self.server = RedisServer(persistence="no" if persistence == "no" else "always")
        self._ids: dict[int, int] = {}
        self._inexact: dict[Key, tuple[int, int, int]] = {}
        """Expiry of a key, and by how many ms it may be earlier or later."""
        self._loaded = True
        """False if the server may still be loading its data."""

    # Driving the server.

    def start(self, life: Life, chosen: int) -> None:  # noqa: ARG002
        self._loaded = not any(_is_loading(reply) for talk in life.conversations for reply in talk.replies)
        self._ids = client_ids(life)
        self._start_host(self.server, life)

    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None:
        host = self._running()
        before = self._expiries()
        self.server.loading = chosen == WHILE_LOADING
        if not self.server.loading:
            self._loaded |= not self._runs_while_loading(request)
            host.wall = chosen
        if talk.number not in self._talks:
            self.server.next_client = self._ids[talk.number]
            self._talks[talk.number] = SteppedConnection(host, talk.peer)
        waits_for_replicas = request.words[0].lower() == b"wait"
        self._talks[talk.number].ask(_ECHO if waits_for_replicas else request.data)
        host.run_timers(0)
        first, last = self._readings(moment)
        now = host.wall // NS_PER_MS
        for key, when in self._expiries().items():
            if before.get(key) != when:
                self._inexact[key] = when, max(0, now - first), max(0, last - now)

    def _runs_while_loading(self, request: Request) -> bool:
        command = self.server.commands.get(request.words[0].lower())
        return command is not None and runs_while_loading(command)

    def passing(self, before_ns: int) -> Sequence[int]:
        """Return the time itself, if a wait may have timed out before it."""
        _, now = self._clock.interval(before_ns, before_ns)
        waits = (client.blocked for client in self.server.blocked)
        due = any(one and one.deadline_ms is not None and one.deadline_ms < now // NS_PER_MS for one in waits)
        return [before_ns] if due else []

    def let_pass(self, chosen: int) -> None:
        _, self._running().wall = self._clock.interval(chosen, chosen)
        end_timed_out_waits(self.server)
        self.server.flush_unsent()

    def sent(self) -> list[tuple[int, bytes]]:
        found = [(number, one.take()) for number, one in self._talks.items() if one.sent]
        return [(number, reply) for number, data in found for reply in split_replies(data)[0]]

    def waits(self, talk: Conversation) -> bool:
        connection = self._talks.get(talk.number)
        return connection is not None and connection.session.blocked is not None

    def prompt(self, request: Request) -> bool:
        command = self.server.commands.get(request.words[0].lower())
        return command is not None and bool(command.flags & MAY_BLOCK)

    def matters_when_closed(self, talk: Conversation) -> bool:
        names = {request.words[0].lower() for request in talk.requests}
        return not names.isdisjoint(SUBSCRIPTIONS | TRANSACTIONS) or any(map(self.prompt, talk.requests))

    # Clock.

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        if reply is not None and _is_loading(reply) and not self._loaded:
            return [WHILE_LOADING]
        first, last = self._clock.interval(*moment)
        base = first if self.prompt(request) else last
        found = dict.fromkeys([*self._told(request, reply, moment), base // NS_PER_MS, *self._edges(request, moment)])
        if reply is not None and request.words[0].lower() == b"time" and (told := _DATE.fullmatch(reply.data)):
            exact = int(told[1]) * 1_000_000_000 + int(told[2]) * 1_000
            return [exact] if first - NS_PER_MS <= exact <= last + NS_PER_MS else [base]
        return [ms * NS_PER_MS for ms in found]

    def _told(self, request: Request, reply: Reply | None, moment: Moment) -> Iterator[int]:
        """Yield the readings (ms) that a reply with the remaining time of a key tells."""
        numbers = () if reply is None else [int(one) for one in _NUMBER.findall(reply.data)]
        for when, earliest, latest in self._ranges(request, moment) if numbers else ():
            for number in numbers:
                if number >= 0 and earliest <= when - number <= latest:
                    yield when - number

    def _edges(self, request: Request, moment: Moment) -> Iterator[int]:
        """Yield readings (ms) at which a key is there, or has expired, if either is possible."""
        for when, earliest, latest in self._ranges(request, moment):
            if earliest <= when < latest:
                yield when
                yield when + 1

    def _ranges(self, request: Request, moment: Moment) -> Iterator[tuple[int, int, int]]:
        """Yield the expiry of each key that the command may use, and the readings at which the command may see it."""
        first, last = self._readings(moment)
        expiries = self._expiries()
        for key, when in expiries.items():
            if len(expiries) <= MOST_KEYS or key[1] in request.words:
                then, early, late = self._inexact.get(key, (when, 0, 0))
                early, late = (early, late) if then == when else (0, 0)
                yield when, first - late, last + early

    def _readings(self, moment: Moment) -> tuple[int, int]:
        first, last = self._clock.interval(*moment)
        return first // NS_PER_MS, last // NS_PER_MS

    def _expiries(self) -> dict[Key, int]:
        return {(db.index, key): when for db in self.server.databases for key, when in db.expires.items()}

    # Comparing.

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        name = request.words[0].lower()
        if name in UNSPECIFIED:
            return real.startswith(b"-") == simulated.startswith(b"-")
        if name == b"exec" or not UNORDERED.isdisjoint(
            {word.decode(errors="replace").lower() for word in request.words}
        ):
            return replies(real, unordered=True) == replies(simulated, unordered=True)
        return replies(real) == replies(simulated)

    def shown_request(self, request: Request) -> str:
        return self.shown_reply(request.data)

    def shown_reply(self, data: bytes) -> str:
        text = ", ".join(replies(data)[0])
        return text if len(text) <= 600 else f"{text[:600]}..."

    def digest(self) -> Hashable:
        server = self.server
        content = [
            (db.index, snapshot_of(key, value, db.expires.get(key)))
            for db in server.databases
            for key, value in db.data.items()
        ]
        watched = [(db.index, key, len(them)) for db in server.databases for key, them in db.watchers.items()]
        broken = sorted(n for n, one in self._talks.items() if one.session and one.session.watch_broken)
        return (
            frozenset(content),
            tuple(map(self._number, server.blocked)),
            (*watched, *broken),
            tuple((name, len(them)) for table in (server.channels, server.patterns) for name, them in table.items()),
            len(server.scripts),
            sum(one.closed for one in self._talks.values()),
            self._loaded,
        )

    def _number(self, client: ClientState) -> int:
        return next((number for number, one in self._talks.items() if one.session is client), 0)

    # Copies.

    def checkpoint(self) -> Any:
        """Waiting clients have functions of their own, which cannot be copied."""
        if self.server.blocked or any(one.session and one.session.queued is not None for one in self._talks.values()):
            return None
        server = self.server
        scripts, lua, commands = server.scripts, server.lua, server.commands
        server.scripts, server.lua, server.commands = {}, None, {}  # functions of an interpreter cannot be copied
        try:
            state = pickle.dumps((server, self._host, self._talks, self._ids, self._inexact, self._loaded))
        finally:
            server.scripts, server.lua, server.commands = scripts, lua, commands
        return state, [script.code for script in scripts.values()]

    def restore(self, state: Any) -> None:
        pickled, scripts = state
        commands = self.server.commands
        self.server, self._host, self._talks, self._ids, self._inexact, self._loaded = pickle.loads(pickled)
        self.server.commands = commands
        for code in scripts:
            self.server.execute(ClientState(self.server, None, 0), [b"script", b"load", code])


def _is_loading(reply: Reply) -> bool:
    return reply.data.startswith(b"-" + LOADING)


def client_ids(life: Life) -> dict[int, int]:
    """Return the id that the real server gave to each connection: numbers in the order in which it accepted them."""
    accepted = [one for one in life.conversations if one.requests or one.closed_ns is not None or one.ended_ns is None]
    told = ((index, _ID.search(talk.replies[0].data)) for index, talk in enumerate(accepted) if talk.replies)
    first = next((int(found[1]) - index for index, found in told if found), FIRST_ID)
    return {talk.number: first + index for index, talk in enumerate(accepted)}


def limit(recording: WireRecording, found: Sequence[Life], options: Mapping[str, Any]) -> Limit | None:
    """Return why the traffic of a server cannot be checked, and from when on; None if all can.

    The connections of replicas and sentinels are emptied: a primary answers clients as if it had none, but for the
    count of WAIT.
    """
    if recording.kind == CLUSTER.name:
        return Limit("the simulated server knows no hash slots")
    if options.get("maxmemory"):
        return Limit(EVICTS)
    if recording.kind == SENTINEL.name and recording.host != FIRST_PRIMARY:
        return Limit("a replica executes what its primary sends, which is not recorded")
    limits = list(_limits(found))
    for talk in (talk for life in found for talk in life.conversations):
        if any(request.words[0].lower() in REPLICA or HELLO in request.words for request in talk.requests):
            talk.requests, talk.replies = [], []
    if options.get("persistence") == "everysec" and len(found) > 1:
        limits.append(Limit("the server may have lost the writes of its last second", found[1].began_ns))
    return min(limits, key=lambda one: one.from_ns, default=None)


def _limits(found: Sequence[Life]) -> Iterator[Limit]:
    for request in in_order(found):
        words = [word.lower() for word in request.words[:3]]
        if words[0] in DEMOTION:
            yield Limit("the server becomes a replica", request.arrived_ns)
        if words == [b"config", b"set", b"maxmemory"]:
            yield Limit(EVICTS, request.arrived_ns)


SERVICE: Final = Service(
    RedisParser,
    lambda _, clocks, options: RedisSpecification(clocks[0], str(options.get("persistence", "always"))),
    limit,
)
