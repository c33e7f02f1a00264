"""Message classes of etcd's gRPC services, made from ``etcd.proto`` when this module is imported.

They are in a descriptor pool of their own, so they are independent of the client under test: its library registers the
same messages from code that was generated for one release of protobuf, and here any release will do. Each message is an
attribute of this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FILE: Final = Path(__file__).with_name("etcd.proto")
_KINDS: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bool": _KINDS.TYPE_BOOL, "bytes": _KINDS.TYPE_BYTES, "int32": _KINDS.TYPE_INT32, "int64": _KINDS.TYPE_INT64,
    "string": _KINDS.TYPE_STRING, "uint64": _KINDS.TYPE_UINT64,
}  # fmt: skip
_TOKEN: Final = re.compile(r'\w+|"[^"]*"|[{}=;]')


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="lock_harness/etcd.proto", package="lock_harness", syntax="proto3")
    text = re.sub(r"//.*", "", FILE.read_text(encoding="utf-8"))
    tokens = iter(_TOKEN.findall(text))
    for token in tokens:
        if token == "message":
            _read_message(tokens, file.message_type.add(name=next(tokens)))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {}
    for message in file.message_type:
        descriptor = pool.FindMessageTypeByName(f"lock_harness.{message.name}")
        if hasattr(message_factory, "GetMessageClass"):
            found[message.name] = message_factory.GetMessageClass(descriptor)
        else:  # before protobuf 4.22
            found[message.name] = message_factory.MessageFactory(pool).GetPrototype(descriptor)
    return found


def _read_message(tokens: Iterator[str], message: Any) -> None:
    """Add the fields and enums up to the closing brace."""
    next(tokens)
    choice = False
    for token in tokens:
        if token == "}" and not choice:
            return
        if token == "}":
            choice = False
        elif token == "oneof":
            message.oneof_decl.add(name=next(tokens))
            choice = bool(next(tokens))
        elif token == "enum":
            _read_enum(tokens, message.enum_type.add(name=next(tokens)))
        else:
            repeated = token == "repeated"
            kind = next(tokens) if repeated else token
            field = message.field.add(name=next(tokens), label=_KINDS.LABEL_REPEATED if repeated else 1)
            next(tokens)
            field.number = int(next(tokens))
            next(tokens)
            _set_kind(field, kind, message)
            if choice:
                field.oneof_index = len(message.oneof_decl) - 1


def _read_enum(tokens: Iterator[str], enum: Any) -> None:
    next(tokens)
    for name in tokens:
        if name == "}":
            return
        next(tokens)
        enum.value.add(name=name, number=int(next(tokens)))
        next(tokens)


def _set_kind(field: Any, kind: str, message: Any) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif any(enum.name == kind for enum in message.enum_type):
        field.type, field.type_name = _KINDS.TYPE_ENUM, f".lock_harness.{message.name}.{kind}"
    else:
        field.type, field.type_name = _KINDS.TYPE_MESSAGE, f".lock_harness.{kind}"


def __getattr__(name: str) -> Any:
    """Declare to type checkers that every message is an attribute; the classes themselves are found without a call."""
    raise AttributeError(f"etcd.proto has no message {name!r}")


globals().update(_classes())
