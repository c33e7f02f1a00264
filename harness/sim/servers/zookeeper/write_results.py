"""Bodies of ZooKeeper's replies to writes."""

from __future__ import annotations

from . import jute
from .jute import OpCode
from .tree import TxnResult


def single(op: int, result: TxnResult) -> bytes:
    """Encode the result of one write. It is empty if the operation returns nothing, as a delete does."""
    match op:
        case OpCode.CREATE:
            return jute.string(result.path)
        case OpCode.CREATE2:
            return jute.string(result.path) + jute.stat(result.stat)
        case OpCode.SETDATA | OpCode.SETACL:
            return jute.stat(result.stat)
    return b""


def multi(result: TxnResult) -> bytes:
    """Encode the result of a multi. A failed multi is a successful reply whose parts are errors."""
    parts = []
    for number, part in result.parts:
        op = OpCode.CREATE if number == OpCode.CREATE2 else number  # the real server returns CREATE for both
        body = jute.integer(part.code) if op == OpCode.ERROR else single(op, part)
        parts.append(jute.integer(op) + jute.boolean(False) + jute.integer(part.code) + body)
    return b"".join(parts) + jute.integer(-1) + jute.boolean(True) + jute.integer(-1)
