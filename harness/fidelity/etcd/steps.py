"""Random steps for etcd: requests that lock libraries send, everything that is simulated, and faults.

Steps, of which each is a tuple of plain data:

- ``("call", method, request)``: a request of the v3 API; the text has protobuf's text format;
- ``("v2", method, key, fields)``: a request of the v2 API;
- ``("events",)``: compare the events of all watches since the last time;
- ``("expire", key, ...)``: attach keys to a lease and wait until it has expired;
- ``("v2 expire", key)``: the same for a key of the v2 API;
- ``("pause", method, request)``: pause the member, send, resume the member;
- ``("restart", data)``: kill the member and start it again, "with data" or "without data".
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, Final

from etcd3 import etcdrpc
from google.protobuf import text_format

from harness.fidelity.comparison import Step

from .requests import KEYS, LEASES, MOST_WATCHES, EtcdRequestGenerator
from .v2 import KEYS as V2_KEYS
from .v2 import random_request

LENGTH: Final = 400
FROM_LOCKS: Final = 0.6
"""Share of requests that lock libraries send."""
VOCABULARY: Final = "vocabulary.json"
MOST_REVISIONS: Final = 40
UNARY: Final = ("Put", "Range", "DeleteRange", "Txn", "LeaseGrant", "LeaseRevoke", "LeaseTimeToLive")
"""Methods with one answer, which can be waited for while the member is paused."""
REQUESTS: Final = {
    "Put": etcdrpc.PutRequest, "Range": etcdrpc.RangeRequest, "DeleteRange": etcdrpc.DeleteRangeRequest,
    "Txn": etcdrpc.TxnRequest, "Compact": etcdrpc.CompactionRequest, "LeaseGrant": etcdrpc.LeaseGrantRequest,
    "LeaseRevoke": etcdrpc.LeaseRevokeRequest, "LeaseKeepAlive": etcdrpc.LeaseKeepAliveRequest,
    "LeaseTimeToLive": etcdrpc.LeaseTimeToLiveRequest, "LeaseLeases": etcdrpc.LeaseLeasesRequest,
    "Watch": etcdrpc.WatchRequest,
}  # fmt: skip
KEY, LEASE, WATCH, NUMBER, NAME = "{key}", "{lease}", "{watch}", "{number}", "{name}"
"""Placeholders in recorded requests: for the lock's key, a lease's and a watch's id, a revision or an index, and a
random name."""


def to_text(request: Any) -> str:
    return str(text_format.MessageToString(request, as_one_line=True))


def from_text(method: str, text: str) -> Any:
    return text_format.Parse(text, REQUESTS[method]())


@cache
def vocabulary() -> tuple[tuple[str, ...], ...]:
    """Return the requests that lock libraries were recorded to send, with templates for names and numbers."""
    recorded = json.loads(files(__package__).joinpath(VOCABULARY).read_text(encoding="utf-8"))
    return tuple(dict.fromkeys(tuple(request) for each in recorded.values() for request in each))


FORGOTTEN: Final = 50
"""Steps after which a restart of a lone member with its data no longer applies a transaction that it refused: it does
so until it has written its store to the disk again, 0.1 s later (etcd-io/etcd#18667)."""


class StepGenerator:
    """Generates steps from a seed. ``members``: only with one does a restart lose the data of all."""

    def __init__(self, seed: int, members: int = 1) -> None:
        self.rng = Random(seed)
        self._members = members
        self._requests = EtcdRequestGenerator(self.rng, members)
        self._since_refusal = FORGOTTEN
        """Steps since the last transaction that may have been refused for the revision of a range."""

    def steps(self, length: int = LENGTH) -> list[Step]:
        return [*[self.step() for _ in range(length - 1)], ("events",)]

    def step(self) -> Step:
        self._since_refusal += 1
        chance = self.rng.random()
        if chance < 0.01:
            return ("events",)
        if chance < 0.0105:
            return "expire", *self.rng.sample(KEYS, self.rng.randrange(1, 4))
        if chance < 0.0107:
            return "v2 expire", self.rng.choice(V2_KEYS)
        if chance < 0.0113:
            lost = self._members == 1 and (self.rng.random() < 0.3 or self._since_refusal < FORGOTTEN)
            return "restart", "without data" if lost else "with data"
        if chance < 0.016:
            return self._pause()
        if self.rng.random() < FROM_LOCKS:
            return self._lock_request()
        if self.rng.random() < 0.1:
            return "v2", *random_request(self.rng)
        method, request = self._requests.operation()
        if method == "Txn" and any(op.request_range.revision for op in [*request.success, *request.failure]):
            self._since_refusal = 0
        return "call", method, to_text(request)

    def _pause(self) -> Step:
        method, request = self._requests.operation()
        while method not in UNARY:
            method, request = self._requests.operation()
        return "pause", method, to_text(request)

    def _lock_request(self) -> Step:
        """Return a request of a lock library, with names and numbers that other requests also have."""
        interface, method, *rest = self.rng.choice(vocabulary())
        if interface == "v2":
            key, *fields = map(self._filled, rest)
            return "v2", method, key, tuple(tuple(field.split("=", 1)) for field in fields)
        return "call", method, self._filled(rest[0])

    def _filled(self, template: str) -> str:
        filled = template.replace(KEY, self.rng.choice(V2_KEYS[:2])).replace(LEASE, str(self.rng.choice(LEASES)))
        filled = filled.replace(WATCH, str(self.rng.randint(1, MOST_WATCHES)))
        number = self.rng.choice([0, self.rng.randint(1, MOST_REVISIONS)])  # 0: the key must not exist
        return filled.replace(NUMBER, str(number)).replace(NAME, self.rng.choice("xyz"))
