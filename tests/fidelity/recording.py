"""Requests that the catalogue's locks send to ZooKeeper and etcd, recorded in the simulator.

``python -m tests.fidelity.recording`` stores them where ``harness.fidelity`` draws its steps from. Keys, names from
chance, numbers and ids are replaced by templates, so that two recordings are equal. Locks in other languages than
Python cannot be simulated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from harness.fidelity import etcd, zookeeper
from harness.fidelity.etcd import steps as etcd_steps
from harness.fidelity.etcd.v2 import LONG_S
from harness.fidelity.zookeeper import steps as zookeeper_steps
from harness.lock_impls import catalogue
from harness.plan import Plan
from harness.run.processes import workers
from harness.run.runs import run
from harness.sim.grpc_wire import GrpcServer
from harness.sim.servers.etcd.v2 import KEYS, V2Service
from harness.sim.servers.zookeeper.jute import JuteReader, Malformed, OpCode
from harness.sim.servers.zookeeper.server import ZooKeeperServer

Request = list[Any]
FILES: Final = {
    "zookeeper": Path(zookeeper.__file__).with_name(zookeeper_steps.VOCABULARY),
    "etcd": Path(etcd.__file__).with_name(etcd_steps.VOCABULARY),
}
SECONDS: Final = 3.0
LOCK_KEY: Final = re.compile(r"\bk\d")
TTL_S: Final = 5000
"""ttl that does not end during a comparison."""
_REVISION: Final = re.compile(r"\b((?:\w+_)?revision): [1-9]\d*")


def locks(kind: str) -> list[str]:
    """Return the names of the locks that run on a kind of cluster in the simulator."""
    return [info.name for info in catalogue.infos() if kind in info.kinds and info.simulated]


def record(kind: str, lock: str) -> list[Request]:
    """Return the different requests that a lock sends, as templates, in order."""
    sent: dict[str, Request] = {}

    def add(request: Request | None) -> None:
        if request is not None:
            sent.setdefault(json.dumps(request), request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "call", _call_here)
        (_tap_zookeeper if kind == "zookeeper" else _tap_etcd)(patch, add)
        run(Plan(lock=lock, kind=kind, seed=1, time_limit=SECONDS))
    return [sent[text] for text in sorted(sent)]


class _Here:
    def __init__(self, on_frame: workers.OnFrame) -> None:
        self.sent = 0
        self.send = on_frame


def _call_here(function: str, argument: bytes, on_frame: workers.OnFrame, **_options: object) -> bytes:
    """Run a simulation in this process."""
    module, _, name = function.partition(":")
    result: bytes = getattr(import_module(module), name)(argument, _Here(on_frame))
    return result


def _tap_zookeeper(patch: pytest.MonkeyPatch, add: Callable[[Request | None], None]) -> None:
    execute = ZooKeeperServer._request

    def request(self: ZooKeeperServer, client: Any, body: bytes) -> None:
        reader = JuteReader(body)
        reader.integer()
        try:
            add(_zookeeper_request(reader.integer(), reader))
        except Malformed as error:
            raise AssertionError(body) from error
        execute(self, client, body)

    patch.setattr(ZooKeeperServer, "_request", request)


_READS: Final[dict[int, str]] = {
    OpCode.EXISTS: "exists", OpCode.GETDATA: "get", OpCode.GETCHILDREN: "children", OpCode.GETCHILDREN2: "children2",
}  # fmt: skip


def _zookeeper_request(op: int, reader: JuteReader) -> Request | None:
    """Return an operation of :func:`harness.fidelity.zookeeper.client.request`, None for one without a path."""
    match op:
        case OpCode.CREATE | OpCode.CREATE2:
            path, data = _template(reader.path()), reader.buffer()
            reader.acls()
            return ["create" if op == OpCode.CREATE else "create2", path, _size(data), reader.integer()]
        case OpCode.DELETE:
            return ["delete", _template(reader.path()), reader.integer()]
        case OpCode.SETDATA:
            return ["set", _template(reader.path()), _size(reader.buffer()), reader.integer()]
        case OpCode.SYNC:
            return ["sync", _template(reader.path())]
    if op in _READS:
        return [_READS[op], _template(reader.path()), "watch" if reader.boolean() else None]
    return None


def _size(data: bytes | None) -> Any:
    return data if data is None else {"bytes": len(data)}


def _template(path: str) -> str:
    path = re.sub(r"\d{10}$", zookeeper_steps.NUMBER, LOCK_KEY.sub(zookeeper_steps.KEY, path))
    return re.sub(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", zookeeper_steps.NAME, path)


def _tap_etcd(patch: pytest.MonkeyPatch, add: Callable[[Request | None], None]) -> None:
    handle, serve = GrpcServer._handle_call_frame, V2Service._serve

    def handle_frame(self: GrpcServer, conn: Any, kind: int, number: int, body: bytes) -> None:
        name, _, message = body.partition(b"\0")
        path = name.decode(errors="replace") or getattr(conn.session.calls.get(number), "path", "")
        if message:
            add(_etcd_request(path.rpartition("/")[2], message))
        handle(self, conn, kind, number, body)

    def serve_request(self: V2Service, conn: Any, request: Any) -> None:
        add(_v2_request(request))
        serve(self, conn, request)

    patch.setattr(GrpcServer, "_handle_call_frame", handle_frame)
    patch.setattr(V2Service, "_serve", serve_request)


def _etcd_request(method: str, message: bytes) -> Request | None:
    if method not in etcd_steps.REQUESTS:
        return None
    text = etcd_steps.to_text(etcd_steps.REQUESTS[method].FromString(message))
    text = re.sub(r'value: "(?:[^"\\]|\\.)+"', f'value: "{etcd_steps.NAME}"', text)
    text = re.sub(r"\b(lease|ID): -?\d+", rf"\1: {etcd_steps.LEASE}", text)
    text = _REVISION.sub(rf"\1: {etcd_steps.NUMBER}", re.sub(r"\bTTL: \d+", f"TTL: {TTL_S}", text))
    if method == "LeaseGrant" and "ID:" not in text:
        text += f" ID: {etcd_steps.LEASE}"  # the server would choose one at random
    text = re.sub(r"cancel_request \{[^}]*\}", f"cancel_request {{ watch_id: {etcd_steps.WATCH} }}", text)
    text = LOCK_KEY.sub(etcd_steps.KEY, text)
    return ["v3", method, re.sub(r'/[0-9a-f]{8,}(?=")', f"/{etcd_steps.NAME}", text)]


def _v2_request(request: Any) -> Request | None:
    path = request.target.partition("?")[0]
    if not path.startswith(KEYS):
        return None
    key = LOCK_KEY.sub(etcd_steps.KEY, path.removeprefix(f"{KEYS}/"))
    fields = [f"{name}={_v2_field(name, value)}" for name, value in request.form().items()]
    return ["v2", request.method, key, *fields]


def _v2_field(name: str, value: str) -> str:
    if name in ("value", "prevValue"):
        return etcd_steps.NAME
    return f"+{etcd_steps.NUMBER}" if name == "prevIndex" else str(LONG_S) if name == "ttl" else value


def store(kind: str) -> None:
    recorded = {lock: record(kind, lock) for lock in locks(kind)}
    lines = [
        f"  {json.dumps(lock)}: [\n    " + ",\n    ".join(map(json.dumps, recorded[lock])) + "\n  ]"
        for lock in recorded
    ]
    FILES[kind].write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    for each in FILES:
        store(each)
