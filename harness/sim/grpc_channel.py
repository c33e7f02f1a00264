"""``grpc.insecure_channel`` for simulated hosts: grpcio's channel interface over a simulated TCP connection.

grpcio's core is written in C and uses threads and sockets that cannot be simulated, so the whole channel is replaced.
The generated stubs and messages above it are the real ones.

The channel connects as the core does: it connects on the first call, and calls wait for the first attempt. If that
fails, calls fail with UNAVAILABLE until an attempt succeeds, except those that wait for the channel to be ready.
Attempts follow the back-off of https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md: 1 s, then 1.6 times
as long each, with 20 % jitter, at most 120 s, and at least 20 s for one attempt. Keep-alive is off unless the options
enable it, so a call without a deadline waits for ever behind a cut.

Simplified: each channel has one connection (the core shares connections between channels of a process), and each
target one address. There are no TLS, credentials, compression, metadata or retry policies. A call that fails at once
takes one millisecond, about as long as in the core: without it etcd3's watcher, which retries without a pause, would
loop for ever in virtual time.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
from greenlet import getcurrent

from .grpc_call import RpcCall
from .grpc_methods import StreamStream, StreamUnary, UnaryStream, UnaryUnary
from .grpc_wire import CANCELLED, HELLO, MESSAGE, PING, STATUS, frame, split
from .kernel import MILLISECOND, SECOND, Task
from .sockets import SimSocket

UNAVAILABLE: Final = 14
MULTIPLIER: Final = 1.6
JITTER: Final = 0.2
_DEFAULTS: Final = {
    "grpc.initial_reconnect_backoff_ms": 1000,
    "grpc.min_reconnect_backoff_ms": 20_000,
    "grpc.max_reconnect_backoff_ms": 120_000,
    "grpc.keepalive_time_ms": 0,
    "grpc.keepalive_timeout_ms": 20_000,
    "grpc.keepalive_permit_without_calls": 0,
}
State = grpc.ChannelConnectivity


class SimChannel(grpc.Channel):  # type: ignore[misc]
    """A channel to ``host:port``, with the interface of ``grpc.Channel``."""

    def __init__(self, task: Task, target: str, options: Any = None) -> None:
        name, _, port = target.rpartition("/")[2].rpartition(":")
        self._address = (name, int(port))
        self._options = {**_DEFAULTS, **dict(options or ())}
        self._kernel = task.kernel
        self._host = task.host
        self._life = task.life
        self._random = task.kernel.rng(f"grpc/{task.host.name}/{task.kernel.next_number()}").uniform
        self._state = State.IDLE
        self._socket: SimSocket | None = None
        self._inbox = b""
        self._calls: dict[int, RpcCall] = {}
        self._unsent: dict[int, RpcCall] = {}
        self._last_number = 0
        self._last_error = ""
        self._closed = False
        self._watchers: list[Callable[[Any], None]] = []

    # Calls.

    def open(self, path: str, decode: Any, timeout: float | None, wait_for_ready: bool | None) -> RpcCall:
        """Start a call; ``timeout`` is in seconds. Raises ValueError on a closed channel."""
        if self._closed:
            raise ValueError("Cannot invoke RPC on closed channel!")
        self._last_number += 1
        call = RpcCall(self, self._last_number, path, decode, bool(wait_for_ready))
        call.begin(timeout)
        return call

    def start(self, call: RpcCall) -> None:
        if self._state is State.READY:
            self._calls[call.number] = call
            call.connected(self._send)
        elif self._state is State.TRANSIENT_FAILURE and not call.wait_for_ready:
            task = getcurrent()
            assert isinstance(task, Task)
            task.park(MILLISECOND)
            call.finish(UNAVAILABLE, self._last_error)
        else:
            self._unsent[call.number] = call
            self._start_connecting()

    def forget(self, call: RpcCall) -> None:
        self._calls.pop(call.number, None)
        self._unsent.pop(call.number, None)

    def _send(self, data: bytes) -> None:
        if self._socket is not None:
            try:
                self._socket.send(data)
            except OSError:
                """The reading thread sees the error too, and ends all calls."""

    def unary_unary(self, method: str, request_serializer: Any = None, response_deserializer: Any = None,
                    **_options: Any) -> UnaryUnary:  # fmt: skip
        return UnaryUnary(self.open, method, request_serializer, response_deserializer)

    def unary_stream(self, method: str, request_serializer: Any = None, response_deserializer: Any = None,
                     **_options: Any) -> UnaryStream:  # fmt: skip
        return UnaryStream(self.open, method, request_serializer, response_deserializer)

    def stream_unary(self, method: str, request_serializer: Any = None, response_deserializer: Any = None,
                     **_options: Any) -> StreamUnary:  # fmt: skip
        return StreamUnary(self.open, method, request_serializer, response_deserializer)

    def stream_stream(self, method: str, request_serializer: Any = None, response_deserializer: Any = None,
                      **_options: Any) -> StreamStream:  # fmt: skip
        return StreamStream(self.open, method, request_serializer, response_deserializer)

    # The connection: one thread connects, reads, and reconnects.

    def _start_connecting(self) -> None:
        if self._state is State.IDLE:
            self._set_state(State.CONNECTING)
            self._kernel.spawn(self._host, self._life, self._run_connection)

    def _set_state(self, state: Any) -> None:
        self._state = state
        for watcher in list(self._watchers):
            watcher(state)

    def _run_connection(self) -> None:
        options = self._options
        pause = options["grpc.initial_reconnect_backoff_ms"]
        while not self._closed:
            began = self._kernel.now
            if self._connect(max(pause, options["grpc.min_reconnect_backoff_ms"])):
                self._read()
                if not self._unsent or self._closed:
                    break
                self._set_state(State.CONNECTING)
                pause = options["grpc.initial_reconnect_backoff_ms"]
            else:
                self._fail_fast()
                self._sleep_until(began + int(pause * self._random(1 - JITTER, 1 + JITTER)) * MILLISECOND)
                pause = min(pause * MULTIPLIER, options["grpc.max_reconnect_backoff_ms"])
        if not self._closed:
            self._set_state(State.IDLE)

    def _connect(self, limit_ms: float) -> bool:
        """Connect, exchange HELLO and start the waiting calls. Return False if that fails within ``limit_ms``."""
        task = getcurrent()
        assert isinstance(task, Task)
        deadline = self._kernel.now + int(limit_ms * MILLISECOND)
        self._socket = sock = SimSocket(task)
        self._inbox = b""
        try:
            sock.settimeout(limit_ms / 1000)
            name, port = socket.getaddrinfo(*self._address)[0][4][:2]
            sock.connect((str(name), int(port)))
            sock.sendall(frame(HELLO))
            while not self._inbox:
                sock.settimeout(max(0, deadline - self._kernel.now) / SECOND or 1e-9)
                self._inbox = sock.recv(1 << 20)
                if not self._inbox:
                    raise ConnectionError("Socket closed")
        except OSError as error:
            self._close_socket()
            where = (
                f"{self._address[0]}:{self._address[1]}: Failed to connect to remote host: {error.strerror or error}"
            )
            self._last_error = f"failed to connect to all addresses; last error: UNKNOWN: {where}"
            return False
        self._set_state(State.READY)
        waiting, self._unsent = self._unsent, {}
        self._calls.update(waiting)
        for call in waiting.values():
            call.connected(self._send)
        return True

    def _read(self) -> None:
        """Deliver incoming frames until the connection breaks, then fail every call on it."""
        sock, why = self._socket, "Socket closed"
        try:
            while sock is not None:
                self._deliver()
                data = self._receive(sock)
                if not data:
                    break
                self._inbox += data
        except OSError as error:
            why = f"recvmsg:{error.strerror or error}"
        self._close_socket()
        self._state = State.IDLE if self._closed else State.CONNECTING  # seen by callbacks that start new calls
        self._end_calls(UNAVAILABLE, why, self._calls)

    def _receive(self, sock: SimSocket) -> bytes:
        options = self._options
        if not options["grpc.keepalive_time_ms"]:
            sock.settimeout(None)
            return sock.recv(1 << 20)
        try:
            sock.settimeout(options["grpc.keepalive_time_ms"] / 1000)
            return sock.recv(1 << 20)
        except TimeoutError:
            if self._calls or options["grpc.keepalive_permit_without_calls"]:
                self._send(frame(PING))
                sock.settimeout(options["grpc.keepalive_timeout_ms"] / 1000)
                try:
                    return sock.recv(1 << 20)
                except TimeoutError:
                    raise OSError("keepalive watchdog timeout") from None
            return self._receive(sock)

    def _deliver(self) -> None:
        frames, self._inbox = split(self._inbox)
        for kind, number, body in frames:
            call = self._calls.get(number)
            if call is None or kind == HELLO:
                continue
            if kind == MESSAGE:
                call.arrived(body)
            elif kind == STATUS:
                call.finish(body[0], body[1:].decode())

    def _close_socket(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    def _fail_fast(self) -> None:
        self._set_state(State.TRANSIENT_FAILURE)
        waiting_calls = {number: call for number, call in self._unsent.items() if call.wait_for_ready}
        failing_calls = {number: call for number, call in self._unsent.items() if not call.wait_for_ready}
        self._unsent = waiting_calls
        self._end_calls(UNAVAILABLE, self._last_error, failing_calls)

    def _end_calls(self, code: int, why: str, calls: dict[int, RpcCall]) -> None:
        for call in list(calls.values()):
            call.finish(code, why)

    def _sleep_until(self, when: int) -> None:
        task = getcurrent()
        assert isinstance(task, Task)
        while task.kernel.now < when and not self._closed:
            task.park(when - task.kernel.now)

    # The rest of grpc.Channel.

    def subscribe(self, callback: Callable[[Any], None], try_to_connect: bool | None = False) -> None:
        self._watchers.append(callback)
        callback(self._state)
        if try_to_connect:
            self._start_connecting()

    def unsubscribe(self, callback: Callable[[Any], None]) -> None:
        if callback in self._watchers:
            self._watchers.remove(callback)

    def close(self) -> None:
        self._closed = True
        self._close_socket()
        self._end_calls(CANCELLED, "Channel closed!", {**self._calls, **self._unsent})

    def __enter__(self) -> SimChannel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _insecure_channel(task: Task, target: str, options: Any = None, _compression: Any = None) -> SimChannel:
    return SimChannel(task, target, options)


def _secure_channel(_task: Task, *_args: Any, **_options: Any) -> SimChannel:
    raise NotImplementedError("grpc.secure_channel: the simulator has no TLS; use grpc.insecure_channel")


def virtual() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield (module, attribute, replacement), where the replacement takes the calling task as first argument."""
    yield grpc, "insecure_channel", _insecure_channel
    yield grpc, "secure_channel", _secure_channel
