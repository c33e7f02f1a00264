"""How much of a recorded ZooKeeper's traffic the simulated one can explain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from harness.clusters.wire import WireRecording
from harness.protocols.messages import Request
from harness.protocols.zookeeper import CONNECT, code_of, op_of
from harness.sim.servers.zookeeper.jute import NAMES, OPEN_ACL, Code, JuteReader, Malformed, OpCode

from .conversation import Life, Limit
from .zookeeper_replies import answered

_LISTS: Final = "access control lists"


def limit(recording: WireRecording, found: Sequence[Life], options: Mapping[str, Any]) -> Limit | None:
    """Return why the traffic of a server or an ensemble cannot be checked, and from when on; None if all can."""
    del recording, options
    return min(_limits(found), key=lambda one: one.from_ns, default=None)


def _limits(found: Sequence[Life]) -> Iterator[Limit]:
    for talk in (talk for life in found for talk in life.conversations):
        for request in talk.requests:
            if request.words != (CONNECT,) and (lack := _lack(request)):
                yield Limit(f"the simulated server lacks {lack}", request.arrived_ns)
        for request, reply in answered(talk):
            if request.words != (CONNECT,) and code_of(reply.data) == Code.SESSION_EXPIRED:
                yield Limit("a real server refuses a session from a moment before it ends on", request.arrived_ns)


def _lack(request: Request) -> str:
    """Return what a request needs and the simulated server lacks, "" if nothing."""
    op = op_of(request)
    if op == OpCode.AUTH or op not in NAMES:
        return f"operation {op}"
    reader = JuteReader(request.data[12:])
    try:
        return _multi_lack(reader) if op == OpCode.MULTI else _operation_lack(op, reader)
    except Malformed:
        return ""


def _operation_lack(op: int, reader: JuteReader) -> str:
    """Read an operation that changes something, and return what it needs and the simulated server lacks."""
    lists = [OPEN_ACL]
    if op in (OpCode.CREATE, OpCode.CREATE2, OpCode.DELETE, OpCode.SETDATA, OpCode.SETACL, OpCode.CHECK):
        reader.path()
        if op in (OpCode.CREATE, OpCode.CREATE2, OpCode.SETDATA):
            reader.buffer()
        if op in (OpCode.CREATE, OpCode.CREATE2, OpCode.SETACL):
            lists = reader.acls()
        reader.integer()
    return "" if lists == [OPEN_ACL] else _LISTS


def _multi_lack(reader: JuteReader) -> str:
    while True:
        op, done, _ = reader.integer(), reader.boolean(), reader.integer()
        if done or op not in NAMES:
            return "" if done else f"operation {op}"
        if lack := _operation_lack(op, reader):
            return lack
