"""How the recorded traffic of a family of servers is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from harness.clusters.wire import WireRecording
from harness.protocols.messages import Parser

from .clock import ServerClock
from .conversation import Life, Limit
from .specification import Specification


class Service(NamedTuple):
    """How the traffic of a family of servers is checked.

    ``specification`` is called with what is to be explained, the clocks of the servers and the plan's server options.
    ``limit`` says how much of the traffic can be checked. With ``replicated``, the servers of a run are members of one
    ensemble, and are checked together.
    """

    parser: type[Parser]
    specification: Callable[[list[Life], Sequence[ServerClock], Mapping[str, Any]], Specification]
    limit: Callable[[WireRecording, list[Life], Mapping[str, Any]], Limit | None]
    replicated: bool = False
