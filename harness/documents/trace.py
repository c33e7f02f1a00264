"""The document of ``harness fidelity --run``: whether the recorded traffic of a run's servers is possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from harness.wording import counted

SCHEMA: Final = 1
TraceState = Literal["possible", "impossible", "unknown"]


class TraceDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first reply of a real server that no execution of the simulated one gives."""

    at_s: float
    """Time of the reply, seconds since the first start of the server."""
    connection: int
    """Number of the connection in the recording."""
    client: str
    """Address and port of the client."""
    request: str
    """The request, as text."""
    real: str
    """Reply of the real server."""
    possible: tuple[str, ...] = ()
    """Replies of the simulated server, in the executions that explain all earlier replies; empty if it sends none."""

    @property
    def sentence(self) -> str:
        return (
            f"after {self.at_s:.3f} s {self.client} got {self.real} to {self.request}; "
            f"possible: {' or '.join(self.possible) or 'nothing'}"
        )


class ServerTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Result of checking the recorded traffic of one server."""

    host: str
    """Name of the server."""
    state: TraceState
    """``possible`` if the simulated server may have given all replies; ``unknown`` if that was not decided."""
    why: str = ""
    """Why it is unknown."""
    requests: int = 0
    """Number of recorded requests with a reply."""
    steps: int = 0
    """Number of steps of the search."""
    seconds: float = 0.0
    """Real time that the search took, seconds."""
    difference: TraceDifference | None = None
    """The reply that is impossible."""


class TraceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded traffic of a run on containers, checked against the simulated servers."""

    schema: Literal[1]
    """Version of this document."""
    run: str
    """Folder of the run."""
    kind: str
    """Kind of its cluster."""
    status: int
    """Exit status: 1 if a reply is impossible, else 3 if nothing was decided, else 0."""
    servers: tuple[ServerTrace, ...] = ()
    """The servers whose traffic was recorded."""


def state_of(servers: tuple[ServerTrace, ...]) -> TraceState:
    """Return the state of a run: what was decided about any of its servers counts."""
    states = {server.state for server in servers}
    return "impossible" if "impossible" in states else "possible" if "possible" in states else "unknown"


class TraceCounts(NamedTuple):
    """Numbers of runs whose servers' traffic was recorded; ``not_checked`` counts them by the reason."""

    checked: int
    impossible: int
    requests: int
    not_checked: dict[str, int]

    @property
    def recorded(self) -> bool:
        """Whether the traffic of any run was recorded."""
        return self.checked > 0 or bool(self.not_checked)

    @property
    def line(self) -> str:
        """The numbers as a sentence without its end."""
        left = "; ".join(f"{number} not checked: {why}" for why, number in self.not_checked.items())
        return (
            f"traffic of {counted(self.checked, 'run')} checked ({counted(self.requests, 'request')}), "
            f"{self.impossible} impossible{'; ' if left else ''}{left}"
        )


def trace_counts(runs: Iterable[tuple[ServerTrace, ...]]) -> TraceCounts:
    """Count the runs whose traffic was recorded. A run is checked if the traffic of one of its servers is."""
    states = [(state_of(servers), servers) for servers in runs if servers]
    unknown = [next(one.why for one in servers) for state, servers in states if state == "unknown"]
    checked = [one for _, servers in states for one in servers if one.state != "unknown"]
    return TraceCounts(
        checked=len(states) - len(unknown),
        impossible=sum(state == "impossible" for state, _ in states),
        requests=sum(one.requests for one in checked),
        not_checked=dict(Counter(why.removeprefix("not checked: ") for why in unknown)),
    )
