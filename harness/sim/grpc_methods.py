"""grpcio's four multi-callables (unary or streaming, in each direction) for a simulated channel.

``timeout`` is in seconds. Metadata, credentials and compression are accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import grpc

from .grpc_call import RpcCall

Open = Callable[[str, Any, float | None, bool | None], RpcCall]
"""Starts a call. Arguments: path, response deserializer, time-out in seconds, and whether to wait for the channel."""


class Method:
    """Common part of the four multi-callables: starts calls of one method."""

    def __init__(self, start: Open, path: str, encode: Callable[[Any], bytes] | None, decode: Any) -> None:
        self._open = start
        self._path = path
        self._encode: Callable[[Any], bytes] = encode or bytes
        self._decode = decode

    def _one(self, request: Any, timeout: float | None, wait_for_ready: bool | None) -> RpcCall:
        message = self._encode(request)
        call = self._open(self._path, self._decode, timeout, wait_for_ready)
        if not call.done():
            call.put(message)
        return call

    def _many(self, requests: Iterable[Any], timeout: float | None, wait_for_ready: bool | None) -> RpcCall:
        call = self._open(self._path, self._decode, timeout, wait_for_ready)
        call.feed(requests, self._encode)
        return call


class UnaryUnary(Method, grpc.UnaryUnaryMultiCallable):  # type: ignore[misc]
    def __call__(
        self,
        request: Any,
        timeout: float | None = None,
        *_more: Any,
        wait_for_ready: bool | None = None,
        **_options: Any,
    ) -> Any:
        return self._one(request, timeout, wait_for_ready).response()

    def with_call(
        self,
        request: Any,
        timeout: float | None = None,
        *_more: Any,
        wait_for_ready: bool | None = None,
        **_options: Any,
    ) -> tuple[Any, RpcCall]:
        call = self._one(request, timeout, wait_for_ready)
        return call.response(), call

    def future(
        self,
        request: Any,
        timeout: float | None = None,
        *_more: Any,
        wait_for_ready: bool | None = None,
        **_options: Any,
    ) -> RpcCall:
        return self._one(request, timeout, wait_for_ready)


class UnaryStream(Method, grpc.UnaryStreamMultiCallable):  # type: ignore[misc]
    def __call__(
        self,
        request: Any,
        timeout: float | None = None,
        *_more: Any,
        wait_for_ready: bool | None = None,
        **_options: Any,
    ) -> RpcCall:
        return self._one(request, timeout, wait_for_ready)


class StreamUnary(Method, grpc.StreamUnaryMultiCallable):  # type: ignore[misc]
    def __call__(
        self, requests: Iterable[Any], timeout: float | None = None, *_more: Any, wait_for_ready: bool | None = None,
        **_options: Any,
    ) -> Any:  # fmt: skip
        return self._many(requests, timeout, wait_for_ready).response()

    def with_call(
        self, requests: Iterable[Any], timeout: float | None = None, *_more: Any, wait_for_ready: bool | None = None,
        **_options: Any,
    ) -> tuple[Any, RpcCall]:  # fmt: skip
        call = self._many(requests, timeout, wait_for_ready)
        return call.response(), call

    def future(
        self, requests: Iterable[Any], timeout: float | None = None, *_more: Any, wait_for_ready: bool | None = None,
        **_options: Any,
    ) -> RpcCall:  # fmt: skip
        return self._many(requests, timeout, wait_for_ready)


class StreamStream(Method, grpc.StreamStreamMultiCallable):  # type: ignore[misc]
    def __call__(
        self, requests: Iterable[Any], timeout: float | None = None, *_more: Any, wait_for_ready: bool | None = None,
        **_options: Any,
    ) -> RpcCall:  # fmt: skip
        return self._many(requests, timeout, wait_for_ready)
