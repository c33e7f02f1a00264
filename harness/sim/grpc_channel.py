"""``grpc.insecure_channel`` on simulated hosts: grpcio's interface over a simulated TCP connection.

grpcio's core is C and has threads and sockets that nobody can make virtual, so the channel is replaced as a whole; the
stubs and the messages above it are the real ones. Connecting is as the core does it: on the first call; calls wait for
the first attempt; when that fails they fail with UNAVAILABLE (unless they wait for the channel to be ready) until an
attempt succeeds, and attempts follow each other with the back-off of
https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md (1 s, 1.6 times as long each, a fifth of jitter,
at most 120 s; at least 20 s for one attempt). Keep-alive is off unless the options ask for it, so a call without a
deadline waits for ever behind a cut.

Abstracted: one connection a channel (the core shares them between channels of a process), one address a target; no
TLS, credentials, compression, metadata, retry policies. A call that fails at once takes a millisecond, which it takes
in the core too: etcd3's watcher repeats without a pause.
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
    """A channel to ``host:port``."""

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
        self._numbers = 0
        self._why = ""
        self._closed = False
        self._watchers: list[Callable[[Any], None]] = []

    # Calls.

    def open(self, path: str, decode: Any, timeout: float | None, wait_for_ready: bool | None) -> RpcCall:
        if self._closed:
            raise ValueError("Cannot invoke RPC on closed channel!")
        self._numbers += 1
        call = RpcCall(self, self._numbers, path, decode, bool(wait_for_ready))
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
            call.finish(UNAVAILABLE, self._why)
        else:
            self._unsent[call.number] = call
            self._leave_idle()

    def forget(self, call: RpcCall) -> None:
        self._calls.pop(call.number, None)
        self._unsent.pop(call.number, None)

    def _send(self, data: bytes) -> None:
        if self._socket is not None:
            try:
                self._socket.send(data)
            except OSError:
                """The reader finds out and ends all calls."""

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

    # The connection: one thread that connects, reads, and connects again.

    def _leave_idle(self) -> None:
        if self._state is State.IDLE:
            self._turn(State.CONNECTING)
            self._kernel.spawn(self._host, self._life, self._live)

    def _turn(self, state: Any) -> None:
        self._state = state
        for watcher in list(self._watchers):
            watcher(state)

    def _live(self) -> None:
        options = self._options
        pause = options["grpc.initial_reconnect_backoff_ms"]
        while not self._closed:
            began = self._kernel.now
            if self._connect(max(pause, options["grpc.min_reconnect_backoff_ms"])):
                self._read()
                if not self._unsent or self._closed:
                    break
                self._turn(State.CONNECTING)
                pause = options["grpc.initial_reconnect_backoff_ms"]
            else:
                self._fail_fast()
                self._sleep_until(began + int(pause * self._random(1 - JITTER, 1 + JITTER)) * MILLISECOND)
                pause = min(pause * MULTIPLIER, options["grpc.max_reconnect_backoff_ms"])
        if not self._closed:
            self._turn(State.IDLE)

    def _connect(self, limit_ms: float) -> bool:
        """Connect and exchange greetings; what was waiting is sent. False if not within ``limit_ms``."""
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
            self._hang_up()
            where = (
                f"{self._address[0]}:{self._address[1]}: Failed to connect to remote host: {error.strerror or error}"
            )
            self._why = f"failed to connect to all addresses; last error: UNKNOWN: {where}"
            return False
        self._turn(State.READY)
        waiting, self._unsent = self._unsent, {}
        self._calls.update(waiting)
        for call in waiting.values():
            call.connected(self._send)
        return True

    def _read(self) -> None:
        """Deliver what comes until the connection breaks; then every call on it has failed."""
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
        self._hang_up()
        self._state = State.IDLE if self._closed else State.CONNECTING  # for calls that the ends of others start
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

    def _hang_up(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    def _fail_fast(self) -> None:
        self._turn(State.TRANSIENT_FAILURE)
        patient = {number: call for number, call in self._unsent.items() if call.wait_for_ready}
        hasty = {number: call for number, call in self._unsent.items() if not call.wait_for_ready}
        self._unsent = patient
        self._end_calls(UNAVAILABLE, self._why, hasty)

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
            self._leave_idle()

    def unsubscribe(self, callback: Callable[[Any], None]) -> None:
        if callback in self._watchers:
            self._watchers.remove(callback)

    def close(self) -> None:
        self._closed = True
        self._hang_up()
        self._end_calls(CANCELLED, "Channel closed!", {**self._calls, **self._unsent})

    def __enter__(self) -> SimChannel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _insecure_channel(task: Task, target: str, options: Any = None, _compression: Any = None) -> SimChannel:
    return SimChannel(task, target, options)


def _secure_channel(_task: Task, *_args: Any, **_options: Any) -> SimChannel:
    raise NotImplementedError("TLS is not simulated: use an insecure channel")


def virtual() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """(module, attribute, what it does on a simulated host, given the task that calls)."""
    yield grpc, "insecure_channel", _insecure_channel
    yield grpc, "secure_channel", _secure_channel
