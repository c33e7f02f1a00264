"""The message classes of the simulated etcd are those that clients use, and need no client library."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from etcd3 import etcdrpc
from etcd3.etcdrpc import kv_pb2

from harness.sim.servers.etcd import messages

THEIRS: dict[str, Any] = {**vars(etcdrpc), **vars(kv_pb2)}
SHARED = sorted(name for name in vars(messages) if hasattr(THEIRS.get(name), "DESCRIPTOR"))


def shape(message: Any) -> list[tuple[object, ...]]:
    """Return the field properties that decide the bytes of a message, and the names that code uses."""
    about = message.DESCRIPTOR
    fields = [
        (field.name, field.number, field.type, field.label, field.containing_oneof and field.containing_oneof.name)
        for field in about.fields
    ]
    return [*fields, *((enum.name, enum.values_by_name[name].number) for enum in about.enum_types
                       for name in enum.values_by_name)]  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_a_message_has_the_fields_of_the_clients_message(name: str) -> None:
    assert shape(getattr(messages, name)) == shape(THEIRS[name])


def test_the_messages_of_all_services_are_there() -> None:
    assert {"TxnRequest", "WatchResponse", "LeaseGrantRequest", "MemberListResponse", "KeyValue"} <= set(SHARED)
    assert messages.LockRequest(name=b"k", lease=7).SerializeToString() == b"\n\x01k\x10\x07"


def test_an_unknown_message_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no message 'Nothing'"):
        _ = messages.Nothing


def test_the_simulated_servers_import_no_client_library() -> None:
    code = (
        "import sys, harness.clusters.sim.services.etcd, harness.clusters.sim.services.redis, "
        "harness.clusters.redis_flood; print(*{'etcd3', 'grpc', 'redis', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
