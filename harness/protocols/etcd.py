"""Recorded traffic of an etcd member as requests and replies of its gRPC API; each call is a conversation.

A response to a watch is as many replies as it has events. Left out are the v2 API, calls about the process and the
cluster, and responses without contents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, Final, Protocol

from harness.sim.servers.etcd import messages

from .http2 import PREFACE, Direction, Piece
from .messages import Reply, Request

WATCH: Final = "Watch"
CALLS: Final[dict[str, tuple[Any, Any]]] = {
    "Range": (messages.RangeRequest, messages.RangeResponse),
    "Put": (messages.PutRequest, messages.PutResponse),
    "DeleteRange": (messages.DeleteRangeRequest, messages.DeleteRangeResponse),
    "Txn": (messages.TxnRequest, messages.TxnResponse),
    "Compact": (messages.CompactionRequest, messages.CompactionResponse),
    "LeaseGrant": (messages.LeaseGrantRequest, messages.LeaseGrantResponse),
    "LeaseRevoke": (messages.LeaseRevokeRequest, messages.LeaseRevokeResponse),
    "LeaseKeepAlive": (messages.LeaseKeepAliveRequest, messages.LeaseKeepAliveResponse),
    "LeaseTimeToLive": (messages.LeaseTimeToLiveRequest, messages.LeaseTimeToLiveResponse),
    WATCH: (messages.WatchRequest, messages.WatchResponse),
}
"""Requests and responses of the methods that are checked."""
PROCESS: Final = frozenset({"Status", "MemberList", "LeaseLeases", "Check", "Hash", "HashKV", "Alarm"})
"""Methods about the process, the cluster, or the order of leases."""
MESSAGE: Final = b"m"
STATUS: Final = b"s"
"""First byte of a reply: a message, or the status of a call that failed."""
STREAM: Final = 4
"""Bytes of a stream's number, before each reply of a connection."""
_CERTAIN: Final = frozenset({3, 5, 6, 9, 11})
"""Codes of refusals. After other codes a request may have been executed."""


class Pieces(Protocol):
    """Cuts what one side of a connection sends into parts of streams."""

    def add(self, data: bytes) -> Iterator[Piece]:
        """Yield what is complete with this data."""


class EtcdParser:
    """A :class:`~harness.protocols.messages.Parser`."""

    codes: ClassVar[Collection[int]] = _CERTAIN
    """Codes of a status that count as a reply."""
    left_out: ClassVar[Collection[str]] = PROCESS
    """Methods that are left out."""

    def __init__(self) -> None:
        self._in: Pieces = Direction(client=True)
        self._out: Pieces = Direction(client=False)
        self._first = b""
        self._grpc: bool | None = None
        """None until it is known whether the client speaks gRPC."""
        self._methods: dict[int, str] = {}
        self._waiting: dict[int, list[Request]] = {}

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        if self._grpc is None:
            self._first += data
            if len(self._first) < len(PREFACE) and PREFACE.startswith(self._first):
                return []
            self._grpc = self._first.startswith(PREFACE)
            data = self._first
        return list(self._requests(time_ns, data)) if self._grpc else []

    def _requests(self, time_ns: int, data: bytes) -> Iterator[Request]:
        for stream, headers, message in self._in.add(data):
            if headers is not None:
                self._methods.setdefault(stream, headers.get(":path", "").rpartition("/")[2])
                continue
            method = self._methods.get(stream, "")
            if method in self.left_out:
                continue
            words = stream.to_bytes(STREAM, "big"), method.encode()
            request = Request(time_ns, words, message)
            self._waiting.setdefault(stream, []).append(request)
            yield request

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        return list(self._replies(time_ns, data)) if self._grpc else []

    def _replies(self, time_ns: int, data: bytes) -> Iterator[Reply]:
        for stream, headers, message in self._out.add(data):
            method, waiting = self._methods.get(stream, ""), self._waiting.get(stream, [])
            if method not in CALLS:
                continue
            if headers is not None:
                code = int(headers.get("grpc-status", "0"))
                if code in self.codes and waiting:
                    request = waiting.pop(0)
                    request.replied_ns = time_ns
                    text = f"{code} {headers.get('grpc-message', '')}"
                    yield Reply(time_ns, stream.to_bytes(STREAM, "big") + STATUS + text.encode(), time_ns, request)
                continue
            for part in parts(method, message):
                answered = waiting.pop(0) if waiting and answers(method, part) else None
                if answered is not None:
                    answered.replied_ns = time_ns
                yield Reply(time_ns, stream.to_bytes(STREAM, "big") + MESSAGE + part, time_ns, answered)


def parts(method: str, message: bytes) -> list[bytes]:
    """Return a response, or one for each event of a response to a watch."""
    if method != WATCH:
        return [message]
    response = messages.WatchResponse.FromString(message)
    if response.created or response.canceled:
        return [message]
    single = [messages.WatchResponse(watch_id=response.watch_id, events=[event]) for event in response.events]
    return [one.SerializeToString() for one in single]


def answers(method: str, message: bytes) -> bool:
    """Return whether a response is one to a request, and no event."""
    return method != WATCH or not messages.WatchResponse.FromString(message).events


def method_of(request: Request) -> str:
    return request.words[1].decode()


def parsed(request: Request) -> Any:
    """Return the message of a request."""
    return CALLS[method_of(request)][0].FromString(request.data)


def response_of(method: str, reply: bytes) -> Any:
    """Return the message of a reply, None if it is the status of a failure."""
    return CALLS[method][1].FromString(reply[1:]) if reply[:1] == MESSAGE else None
