"""State of a simulated Consul server as a search drives it: its store, and its sessions and lock-delays by intervals.

The moment at which a session begins its TTL anew, or ends, is known as an interval only.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Any, Final

from harness.sim.servers.consul.api import BlockingQuery, ConsulApi
from harness.sim.servers.consul.server import TTL_MULTIPLIER
from harness.sim.servers.consul.store import ConsulStore
from harness.sim.servers.consul.values import MOST_LOCK_DELAY_NS
from harness.sim.servers.http import HttpRequest

from .specification import Moment

LATE_NS: Final = 200_000_000
"""Time by which a real timer may be late."""


def ignore(*_: Any) -> None:
    """Do nothing: the search decides when a query is answered."""


class Indexes:
    """The indexes of the simulated server and those of the real one, which are in the same order. A real server counts
    entries of its log that the simulated one lacks."""

    def __init__(self) -> None:
        self._real: dict[int, int] = {}
        self._pairs: list[tuple[int, int]] = []

    def may_be(self, simulated: int, real: int) -> bool:
        """Return whether the two may be the index of the same change."""
        if simulated in self._real:
            return self._real[simulated] == real
        at = bisect_right(self._pairs, (simulated, 0))
        below, above = self._pairs[:at][-1:], self._pairs[at : at + 1]
        return all(one[1] < real for one in below) and all(one[1] > real for one in above)

    def fit(self, simulated: int, real: int) -> bool:
        """Return whether the two may be the index of the same change, and note that they are."""
        if not self.may_be(simulated, real):
            return False
        if simulated not in self._real:
            self._real[simulated] = real
            insort(self._pairs, (simulated, real))
        return True

    def real(self, simulated: int) -> int:
        """Return the real index, or a negative number for one that no reply has said."""
        return self._real.get(simulated, -simulated)

    def simulated(self, real: int) -> int:
        """Return the simulated index of a real one, or the one before it."""
        at = bisect_right(self._pairs, real, key=lambda pair: pair[1])
        return self._pairs[at - 1][0] if at else 0


class ConsulState:
    """Implements :class:`~harness.sim.servers.consul.api.SessionHost`."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.store = ConsulStore()
        self.store.on_change = ignore
        self.indexes = Indexes()
        self.renewed_ns: dict[str, int] = {}
        """Time at which a session began its TTL anew, at the earliest."""
        self.delays: dict[str, tuple[int, int]] = {}
        """End of each key's lock-delay, at the earliest and at the latest."""
        self.queries: dict[int, tuple[BlockingQuery, int, int]] = {}
        """Blocking queries by conversation, with the index and the time until which they wait."""
        self.created = ""
        """Id of the session that the next request creates."""
        self.delayed_now = False
        self._moment = Moment(0, 0)

    def restart(self, time_ns: int) -> None:
        """Start the server with its data."""
        self.delays.clear()
        self.queries.clear()
        self.renewed_ns = dict.fromkeys(self.store.sessions, time_ns)

    def execute(self, request: HttpRequest, moment: Moment) -> Any:
        """Execute a request at a moment."""
        self._moment = moment
        return ConsulApi(self, self.store).execute(request)

    # Sessions.

    def new_id(self) -> str:
        return self.created

    def renew(self, session_id: str) -> None:
        self.renewed_ns[session_id] = max(self.renewed_ns.get(session_id, 0), self._moment.first_ns)

    def end_session(self, session_id: str) -> None:
        self._end(session_id, self._moment)

    def expire(self, session_id: str, last_ns: int) -> None:
        """End a session whose TTL is over, at ``last_ns`` or before."""
        self._end(session_id, Moment(self.expires_ns(session_id), last_ns))

    def expires_ns(self, session_id: str) -> int:
        """Return the earliest time at which a session with a TTL may end."""
        return self.renewed_ns[session_id] + TTL_MULTIPLIER * self.store.sessions[session_id].ttl_ns

    def _end(self, session_id: str, moment: Moment) -> None:
        ended = self.store.destroy(session_id)
        self.renewed_ns.pop(session_id, None)
        if ended is not None:
            session, keys = ended
            delay_ns = min(session.lock_delay_ns, MOST_LOCK_DELAY_NS)
            if delay_ns:
                ends = moment.first_ns + delay_ns, moment.last_ns + delay_ns + LATE_NS
                self.delays.update(dict.fromkeys(keys, ends))

    def delayed(self, key: str) -> bool:  # noqa: ARG002
        return self.delayed_now

    def delay(self, key: str, moment: Moment) -> tuple[bool, ...]:
        """Return whether a lock-delay of the key may be in effect, and whether it may not, the former first."""
        first, last = self.delays.get(key, (0, 0))
        return (*((True,) if moment.first_ns < last else ()), *((False,) if moment.last_ns >= first else ()))
