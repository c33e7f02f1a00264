"""Search space of a hunt as Hypothesis strategies; the simplest value comes first everywhere.

The strategies draw whole plans, so a schedule can be stored, repeated and read. Faults strike on events of clients
where possible, so that a failure does not depend on exact times and can be reproduced elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from harness.clusters import kinds
from harness.faults.base import Fault, multiples
from harness.faults.catalogue import fault_class
from harness.plan import Delay, FaultSpec, Plan
from harness.run.plans.completion import is_rare

from .request import NO_FAULT, SLACK, TTLS, HuntRequest
from .vocabulary import Vocabulary

HOLDS: Final = (0.05, 0.25, 0.5, 0.75, 0.9)
"""Length of a critical section, as a share of the lease."""
OVERRUNS: Final = (1.25, 2.5, 3.5)
"""Longer sections, for schedules without faults and for locks that renew their lease."""
OPENINGS: Final = ((8.0, 0.75, 0), (8.0, 2.5, 0), (2.0, 0.05, 0), (2.0, 0.05, 1))
"""Lease (s), length of a critical section as a share of it, and seed of the first schedules of a rare workload. Usual
workloads have the first of them only. Short sections let a client find the key free after another one's hold."""
STAGGERS: Final = (0.0, 0.1, 0.2, 0.5, 0.9)
WAITS: Final = (0.0, 0.2, 4.0)
"""Times for which a client waits for the lock, in ttls; 0: the plan's default."""
SECTIONS: Final = (1, 2, 0, 0)
SEEDS: Final = 8
USUAL_WEIGHT: Final = 4
"""How often a usual workload is drawn for one draw of any rare workload."""
FOCUS: Final = 3
"""Rounds from one with a single fault in a single workload to the next."""
MOST_DELAYS: Final = 2
DELAYS: Final = (0.001, 0.01, 0.05, 0.3)
"""Seconds by which a message may be late: usual delays of a healthy network."""
NTHS: Final = (1, 1, 2, 3)
AFTERS: Final = (0.0, 0.15, 0.5, 1.0, 3.0)
"""Seconds between an event and a fault."""
LENGTHS: Final = ("1.5 ttl", "0.5 ttl", 0.5, "3 ttl", None)
"""Durations of a fault that names none itself."""
FIRST: Final = ("acquire", "read", "acquire:invoke", "release:invoke")
"""Events on which faults strike in most known failures of locks."""
ACTIVE: Final = (8.0, 3.0)
"""Duration of a schedule before it settles: this many seconds, or this many ttls if that is longer."""


def focused(request: HuntRequest, number: int) -> HuntRequest:
    """Return the request for the schedules of the round with this number.

    Every :data:`FOCUS` rounds, beginning with the first, it has one fault alone with a workload that shows what the
    fault breaks. By chance the two would seldom meet. The lease is the longest: what an interrupted call leaves on a
    server is seen if it stays there for longer than the slack. Without such a fault all rounds are alike.
    """
    shown = [(name, it) for name in request.faults for it in fault_class(name).workloads if it in request.workloads]
    turn, rest = divmod(number - 1, FOCUS)
    if rest or not shown:
        return request
    name, workload = shown[turn % len(shown)]
    return msgspec.structs.replace(request, faults=(name,), workloads=(workload,), ttl=request.ttl or max(TTLS))


def schedules(request: HuntRequest, vocabulary: Vocabulary, number: int = 0) -> st.SearchStrategy[Plan]:
    """Return a strategy for the plans of a completed ``request``, in the round with this number (0: in any).

    In a round with one fault alone (:func:`focused`) no message is late: that breaks many locks, and would be found
    instead."""
    space = focused(request, number) if number else request
    return _Space(space, vocabulary, alone=space is not request).plans()


def openings(request: HuntRequest) -> list[Plan]:
    """Return the plans with which the first round of a completed ``request`` begins: no fault, each workload.

    What needs no fault makes the shortest story, and the draws, which mostly have faults, would find it late."""
    if not request.fault_free or request.faults == (NO_FAULT,):
        return []
    drawn = [(name, *it) for name in request.workloads for it in (OPENINGS if is_rare(name) else OPENINGS[:1])]
    return [
        msgspec.structs.replace(
            request.plan(),
            workload=name,
            clients=request.clients,
            ttl=request.ttl or ttl,
            hold=_rounded(share * (request.ttl or ttl)),
            discipline="checking" if share < 1 else "trusting",
            seed=seed,
            time_limit=time_limit(request.ttl or ttl),
        )
        for name, ttl, share, seed in drawn
    ]


class _Space:
    """The plans of a round. ``alone``: it has one fault in one workload, and no late messages."""

    def __init__(self, request: HuntRequest, vocabulary: Vocabulary, *, alone: bool) -> None:
        self._request = request
        self._alone = alone
        self._fault_free = request.fault_free and not alone
        self._vocabulary = vocabulary
        self._workloads = weighted(request.workloads)
        self._free = request.faults == (NO_FAULT,)
        rest = [name for name in vocabulary.events if name not in FIRST]
        first = [name for name in FIRST if name in vocabulary.events]
        commands = [f"{phase}:{name}" for name in vocabulary.commands for phase in ("request", "reply")]
        self._first = first
        self._events = (*first, *rest)
        self._commands = commands

    def plans(self) -> st.SearchStrategy[Plan]:
        return st.composite(self._draw_plan)()

    def _draw_plan(self, draw: Callable[..., Any]) -> Plan:
        """Draw a plan. The order of the draws decides which plans the search makes first; keep it."""
        request = self._request

        def one_of(values: Sequence[Any]) -> Any:
            return draw(st.sampled_from(values))

        workload = one_of(self._workloads)
        # A rare workload uses a lock in unusual ways. What is wrong with that often shows without any fault.
        free = self._free or (self._fault_free and is_rare(workload) and one_of((True, False)))
        clients = draw(st.integers(min(2, request.clients), request.clients))
        ttl = request.ttl or one_of(TTLS)
        shares = HOLDS + (OVERRUNS if free or self._vocabulary.renews else ())
        hold = _rounded(one_of(shares) * ttl)
        own = draw(st.dictionaries(st.integers(0, clients - 1), st.sampled_from(shares), max_size=1))
        faults = () if free else draw(self._faults(ttl, clients))
        return msgspec.structs.replace(
            request.plan(),
            workload=workload,
            clients=clients,
            ttl=ttl,
            hold=hold,
            holds={f"c{client}": _rounded(share * ttl) for client, share in own.items()},
            sections=one_of(SECTIONS),
            stagger=_rounded(one_of(STAGGERS) * min(ttl, 2.0)),
            wait=_rounded(one_of(WAITS) * ttl),
            discipline="trusting" if hold > ttl else one_of(("trusting", "checking")),
            keys=one_of((1, 1, 2)),
            faults=tuple(faults),
            delays=tuple(draw(st.lists(self._delay(clients), max_size=0 if self._alone else MOST_DELAYS))),
            shuffle=one_of((0, 0, 0, 1, 2, 3)),
            seed=draw(st.integers(0, SEEDS - 1)),
            time_limit=time_limit(ttl),
        )

    def _delay(self, clients: int) -> st.SearchStrategy[Delay]:
        ends = [(a, b) for c in range(clients) for s in self._servers() for a, b in ((f"c{c}", s), (s, f"c{c}"))]
        return st.builds(
            lambda link, nth, by: Delay(link[0], link[1], nth, by),
            st.sampled_from(ends),
            st.integers(1, 20),
            st.sampled_from(DELAYS),
        )

    def _servers(self) -> list[str]:
        return kinds.servers(self._request.nodes)

    # Faults.

    def _faults(self, ttl: float, clients: int) -> st.SearchStrategy[list[FaultSpec]]:
        most = self._request.most_faults
        return st.lists(self._fault(ttl, clients), min_size=min(1, most), max_size=most)

    def _fault(self, ttl: float, clients: int) -> st.SearchStrategy[FaultSpec]:
        request = self._request
        hosts = Hosts(kinds.servers(request.nodes), kinds.sentinels(request.kind), kinds.clients(clients))

        def of(name: str) -> st.SearchStrategy[FaultSpec]:
            fault = fault_class(name)
            params = _params(fault, ttl, hosts, self._vocabulary)
            lengths = [multiples(value, ttl) for value in _lengths(fault)]
            return st.builds(
                lambda when, for_, params: FaultSpec(
                    name,
                    for_=for_,
                    params=_changed_parameters(fault, params),
                    **{**when, **_delay_for_duration(when, for_)},
                ),
                self._moment(fault, clients),
                st.sampled_from(lengths),
                st.fixed_dictionaries({key: st.sampled_from(values) for key, values in params.items()}),
            )

        return st.sampled_from(request.faults).flatmap(of)

    def _moment(self, fault: type[Fault], clients: int) -> st.SearchStrategy[dict[str, Any]]:
        on_event = st.fixed_dictionaries(
            {
                "on": st.one_of(*map(st.sampled_from, filter(None, (self._first, self._events, self._commands)))),
                "client": st.integers(0, clients - 1),
                "nth": st.sampled_from(NTHS),
                "delay": st.just(0.0) | st.sampled_from(AFTERS),
            }
        )
        from_the_start = st.just({"at": 0.0})
        return from_the_start | on_event if "at" in fault.schedule else on_event | from_the_start


def weighted(workloads: Sequence[str]) -> tuple[str, ...]:
    """Return the workloads to draw from. All rare ones together are drawn less often than a usual one: most failures do
    not depend on what they do."""
    usual = [name for name in workloads if not is_rare(name)]
    rare = [name for name in workloads if is_rare(name)]
    return (*(usual * (USUAL_WEIGHT * len(rare)) if rare else usual), *rare)


def time_limit(ttl: float) -> float:
    """Return the duration (s) of a schedule, with time for faults and time to settle."""
    return _rounded(max(ACTIVE[0], ACTIVE[1] * ttl) + ttl + SLACK + 1.0)


def _rounded(seconds: float) -> float:
    return round(seconds, 3)


def _delay_for_duration(when: dict[str, Any], for_: float | None) -> dict[str, Any]:
    """Return no delay for a fault that is healed before the client's next step; it cannot wait."""
    return {"delay": 0.0} if for_ == 0.0 and "on" in when else {}


def _lengths(fault: type[Fault]) -> tuple[Any, ...]:
    if "for" in fault.search:
        return fault.search["for"]
    return LENGTHS if "for" in fault.schedule else (None,)


def _changed_parameters(fault: type[Fault], params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that differ from their defaults."""
    usual = {field.encode_name: field.default for field in msgspec.structs.fields(fault)}
    return {name: value for name, value in params.items() if value != usual[name]}


def _params(fault: type[Fault], ttl: float, hosts: Hosts, vocabulary: Vocabulary) -> dict[str, tuple[Any, ...]]:
    """Return the values to try for each parameter that the fault's search space names or that is a host."""
    some = hosts.some_servers()
    usual: dict[str, Sequence[str]] = {
        "target": hosts.targets(fault),
        "clients": [*["holder"] * len(hosts.clients), *hosts.clients, "clients"],
        "servers": [*["servers"] * len(some), *some],  # draw all servers as often as some of them
        "server": ["servers", *hosts.servers, "resource"],
        "containing": ["", *vocabulary.commands],
        "left": hosts.sides(),
    }
    found: dict[str, tuple[Any, ...]] = {}
    for field in msgspec.structs.fields(fault):
        name = field.encode_name
        if name in fault.search:
            found[name] = tuple(multiples(value, ttl) for value in fault.search[name])
        elif name in usual:
            found[name] = tuple(usual[name])
    return found


@dataclass(frozen=True, slots=True)
class Hosts:
    """Names of a cluster's hosts."""

    servers: list[str]
    sentinels: list[str]
    clients: list[str]

    def targets(self, fault: type[Fault]) -> list[str]:
        """Return the targets of a fault, servers first."""
        found = self.some_servers() if "server" in fault.roles else []
        found += ["sentinels"] if self.sentinels and "sentinel" in fault.roles else []
        if "client" not in fault.roles:
            return found
        own = [*["holder"] * len(self.clients), *self.clients]  # draw the client of the event as often as all others
        return [*found * max(1, len(own) // max(1, len(found))), *own]  # draw servers as often as clients

    def some_servers(self) -> list[str]:
        """Return single servers, all servers, and the minorities and majorities of neighbours."""
        count = len(self.servers)
        sizes = [1] if count <= 2 else [1, count // 2 + 1, count - (count // 2 + 1)]
        groups = [",".join(self.servers[at : at + size]) for size in sizes for at in range(count - size + 1)]
        return [*dict.fromkeys(groups), *(["servers"] if count > 1 else [])]

    def sides(self) -> list[str]:
        """Return the possible sides of a split: a server, alone or with a client."""
        with_a_client = [f"{server},{client}" for server in self.servers for client in self.clients]
        return [*self.servers, *with_a_client]
