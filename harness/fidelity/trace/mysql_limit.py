"""How much of a recorded MySQL's traffic the simulated one can explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.clusters.kinds.mysql import SINGLE
from harness.clusters.wire import WireRecording
from harness.protocols.mysql import COMMANDS, LOGIN
from harness.sim.servers.mysql.protocol import ACCOUNT

from .conversation import Life, Limit, in_order


def limit(recording: WireRecording, found: Sequence[Life], options: Mapping[str, Any]) -> Limit | None:
    """Return why the traffic of a server cannot be checked, and from when on; None if all can.

    The connections of other accounts are emptied: with them the harness watches the server, and changes nothing.
    """
    del options
    if recording.kind != SINGLE.name:
        return Limit("what the servers send each other is not recorded")
    for talk in (talk for life in found for talk in life.conversations):
        if talk.requests and talk.requests[0].words[0] == LOGIN and talk.requests[0].words[1] != ACCOUNT.encode():
            talk.requests, talk.replies = [], []
    for request in in_order(found):
        if request.words[0] not in COMMANDS:
            why = f"the simulated server lacks {request.words[0].decode()}, such as prepared statements"
            return Limit(why, request.arrived_ns)
    return None
