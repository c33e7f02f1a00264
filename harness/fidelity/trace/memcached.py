"""The simulated memcached as the specification of a recorded one.

A memcached counts seconds by a timer, which ticks once a second from its start on. When the server started is known as
an interval only, so the moment of the ticks is a choice of the search at each start. At each tick the process arms its
timer again, so all later ticks come late too if one does: the ticks fall behind with time, by :data:`LATE_NS` and
:data:`LATE_BY_TICK_NS` at most.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from harness.clusters.wire import WireRecording
from harness.fidelity.simulated import SteppedConnection
from harness.protocols.memcached import MemcachedParser, reply_size
from harness.protocols.messages import Reply, Request
from harness.sim.servers.memcached.commands import STORING
from harness.sim.servers.memcached.server import MemcachedServer
from harness.sim.servers.memcached.store import NS_PER_S

from .clock import ServerClock
from .conversation import Conversation, Life, Limit, in_order
from .service import Service
from .specification import Moment, SteppedSpecification

LATE_NS: Final = 200_000_000
"""Time by which the ticks may fall behind after a stall of the machine, ns."""
LATE_BY_TICK_NS: Final = 10_000_000
"""Time by which the ticks may fall behind at each tick, ns."""
START_STEP_NS: Final = 30_000_000
"""Distance of the possible times of a start that are tried, ns."""
STARTS_WITHIN_NS: Final = 600_000_000
"""Time within which a started process has begun to count, ns."""
MOST_KEYS: Final = 500
"""Number of keys for which the smallest memory of a server suffices."""
UNSPECIFIED: Final = frozenset({b"stats", b"version", b"me", b"mn"})
"""Commands whose replies are not compared: about the process, and those that the simulated server lacks."""


class MemcachedSpecification(SteppedSpecification[SteppedConnection]):
    """How a search drives the simulated memcached."""

    def __init__(self, clock: ServerClock) -> None:
        super().__init__()
        self._clock = clock
        self._server = MemcachedServer()
        self._last: dict[int, bytes] = {}
        """Name of the last command of each connection."""
        self._began_ns = 0
        """Time at which the process began to count."""
        self._second = 0

    # Driving the server.

    def starts(self, life: Life) -> Sequence[int]:
        """Return the possible times at which the process began to count."""
        return range(life.began_ns, life.until_ns + STARTS_WITHIN_NS, START_STEP_NS)

    def start(self, life: Life, chosen: int) -> None:
        self._began_ns, self._second = chosen, 0
        first, _ = self._clock.interval(chosen, chosen)
        if self._host is not None:
            self._host.wall = first
        self._start_host(self._server, life, first)

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        """Return the seconds that the process may have counted, each with 1 added."""
        del request, reply
        last = max(self._second, (moment.last_ns - self._began_ns) // NS_PER_S)
        earliest_ns = moment.first_ns - self._began_ns
        late_ns = LATE_NS + earliest_ns // NS_PER_S * LATE_BY_TICK_NS
        first = max(self._second, (earliest_ns - late_ns) // NS_PER_S)
        return [1 + second for second in range(last, first - 1, -1)]

    def execute(self, talk: Conversation, request: Request, choice: int, moment: Moment) -> None:
        del moment
        host = self._running()
        host.run_timers((choice - 1 - self._second) * NS_PER_S)
        self._second = choice - 1
        if talk.number not in self._talks:
            self._talks[talk.number] = SteppedConnection(host, talk.peer)
        self._last[talk.number] = request.words[0]
        self._talks[talk.number].ask(request.data)

    def sent(self) -> list[tuple[int, bytes]]:
        found = []
        for number, connection in self._talks.items():
            data = connection.take() if connection.sent else b""
            while (size := reply_size(self._last[number], data)) is not None:
                found.append((number, data[:size]))
                data = data[size:]
        return found

    # Comparing.

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        del real, simulated
        return request.words[0] in UNSPECIFIED

    def shown_request(self, request: Request) -> str:
        return self.shown_reply(request.data)

    def shown_reply(self, data: bytes) -> str:
        return repr(data[:600])[1:]

    def digest(self) -> Hashable:
        store = self._server.store
        items = [(key, item.value, item.exptime, item.cas) for key, item in store.items.items()]
        return frozenset(items), store.last_flush, self._second, self._began_ns

    # Copies.

    def checkpoint(self) -> Any:
        state = self._server, self._host, self._talks, self._last, self._began_ns, self._second
        return pickle.dumps(state)

    def restore(self, state: Any) -> None:
        self._server, self._host, self._talks, self._last, self._began_ns, self._second = pickle.loads(state)


def limit(recording: WireRecording, found: Sequence[Life], options: Mapping[str, Any]) -> Limit | None:
    """Return from when on the traffic of a server cannot be checked; None if all can."""
    del recording, options
    keys: set[bytes] = set()
    for request in in_order(found):
        if request.words[0] in STORING and len(request.words) > 1:
            keys.add(request.words[1])
            if len(keys) > MOST_KEYS:
                return Limit("the server may have evicted items", request.arrived_ns)
    return None


SERVICE: Final = Service(
    MemcachedParser,
    lambda found, clocks, options: MemcachedSpecification(clocks[0]),  # noqa: ARG005
    limit,
)
