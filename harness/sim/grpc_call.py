"""The client side of one gRPC call from a simulated host: the call object and the error of grpcio's multi-callables.

A call behaves as in grpcio. The caller gets the messages in order, then the status. A deadline, a cancellation or a
broken connection ends a call at once, whatever the server does. A request iterator is read by a thread of its own.
Not simulated: metadata, in either direction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import grpc
from greenlet import getcurrent

from .grpc_wire import CANCEL, CANCELLED, END, OK, OPEN, REQUEST, UNKNOWN, frame, request
from .kernel import SECOND, ScheduledCall, Task

DEADLINE_EXCEEDED: Final = 4
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
Send = Callable[[bytes], None]


class CallChannel(Protocol):
    """The methods of a channel that its calls use."""

    def start(self, call: RpcCall) -> None:
        """Send the call once the channel is connected, or end it with UNAVAILABLE."""

    def forget(self, call: RpcCall) -> None:
        """Drop a call that has ended."""


class RpcError(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """The exception that grpcio raises for a status other than OK."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(code, details)
        self._code = _CODES.get(code, grpc.StatusCode.UNKNOWN)
        self._details = details

    def code(self) -> Any:
        return self._code

    def details(self) -> str:
        return self._details

    def debug_error_string(self) -> str:
        return f"{self._code}: {self._details}"

    def initial_metadata(self) -> tuple[()]:
        return ()

    def trailing_metadata(self) -> tuple[()]:
        return ()

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> None:
        return None

    def cancel(self) -> bool:
        return False

    def add_callback(self, _callback: Callable[[], None]) -> bool:
        return False

    def __str__(self) -> str:
        return f"<RpcError: {self._code}: {self._details}>"

    __repr__ = __str__


class RpcCall(grpc.Call, grpc.Future):  # type: ignore[misc]
    """The client's end of a call: an iterator of responses if the method streams them, otherwise a future."""

    def __init__(
        self, channel: CallChannel, number: int, path: str, decode: Callable[[bytes], Any] | None, wait_for_ready: bool
    ) -> None:
        self.number = number
        self.wait_for_ready = wait_for_ready
        self._path = path
        self._channel = channel
        self._decode = decode
        self._messages: deque[bytes] = deque()
        self._status: tuple[int, str] | None = None
        self._waiters: dict[Task, None] = {}
        self._outbox: list[bytes] | None = []
        self._send: Send = self._outbox.append
        self._timer: ScheduledCall | None = None
        self._deadline: int | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._task: Task = getcurrent()  # type: ignore[assignment]

    # Starting, and the requests.

    def begin(self, timeout: float | None) -> None:
        if timeout is not None:
            kernel = self._task.kernel
            self._deadline = kernel.now + max(0, int(timeout * SECOND))
            self._timer = kernel.later(self._deadline - kernel.now, self._task.life, self._expire)
        self._channel.start(self)

    def put(self, data: bytes) -> None:
        self._send(request(REQUEST, self.number, self._path, data))

    def feed(self, requests: Iterable[Any], encode: Callable[[Any], bytes]) -> None:
        """Send the requests of an iterator, read by a thread of its own."""
        if self._status is None:
            self._send(request(OPEN, self.number, self._path))
            task = self._task
            task.kernel.spawn(task.host, task.life, self._consume, iter(requests), encode)

    def _consume(self, requests: Any, encode: Callable[[Any], bytes]) -> None:
        while self._status is None:
            try:
                message = encode(next(requests))
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - grpcio ends the call for whatever the iterator raises
                self.finish(UNKNOWN, f"Exception iterating requests! {error!r}")
                self._send(frame(CANCEL, self.number))
                return
            if self._status is None:
                self.put(message)
        if self._status is None:
            self._send(request(END, self.number, self._path))

    def connected(self, send: Send) -> None:
        """Send the data queued until now, since the channel is ready."""
        waiting, self._outbox = self._outbox or [], None
        self._send = send
        if waiting:
            send(b"".join(waiting))

    # Responses and status.

    def arrived(self, message: bytes) -> None:
        if self._status is None:
            self._messages.append(message)
            self._wake()

    def finish(self, code: int, details: str) -> bool:
        """End the call with a status. Return False if it has ended already."""
        if self._status is not None:
            return False
        self._status = (code, details)
        if self._timer is not None:
            self._timer.cancel()
        self._channel.forget(self)
        self._wake()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        return True

    def _wake(self) -> None:
        for task in list(self._waiters):
            task.wake()

    def _expire(self) -> None:
        if self.finish(DEADLINE_EXCEEDED, "Deadline Exceeded"):
            self._send(frame(CANCEL, self.number))

    def _wait(self, ready: Callable[[], bool], timeout: float | None = None) -> None:
        task = getcurrent()
        assert isinstance(task, Task)
        deadline = None if timeout is None else task.kernel.now + int(timeout * SECOND)
        self._waiters[task] = None
        try:
            while not ready():
                if not task.park(None if deadline is None else deadline - task.kernel.now) and not ready():
                    raise grpc.FutureTimeoutError
        finally:
            self._waiters.pop(task, None)

    def _over(self) -> bool:
        return self._status is not None

    def _error(self) -> RpcError | None:
        assert self._status is not None
        code, details = self._status
        return None if code == OK else RpcError(code, details)

    def _decoded(self, message: bytes) -> Any:
        return message if self._decode is None else self._decode(message)

    # An iterator of responses.

    def __iter__(self) -> RpcCall:
        return self

    def __next__(self) -> Any:
        self._wait(lambda: bool(self._messages) or self._over())
        if self._messages:
            return self._decoded(self._messages.popleft())
        error = self._error()
        if error is not None:
            raise error
        raise StopIteration

    next = __next__

    # A future of one response (grpc.Future).

    def result(self, timeout: float | None = None) -> Any:
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._decoded(self._messages[0])

    def exception(self, timeout: float | None = None) -> RpcError | None:
        if self._status is None:
            self._wait(self._over, timeout)
        if self._status is not None and self._status[0] == CANCELLED:
            raise grpc.FutureCancelledError
        return self._error()

    def response(self) -> Any:
        """Wait for the only response and return it. Raises RpcError for every status other than OK."""
        if self._status is None:
            self._wait(self._over)
        error = self._error()
        if error is not None:
            raise error
        return self._decoded(self._messages[0])

    def traceback(self, timeout: float | None = None) -> Any:
        error = self.exception(timeout)
        return None if error is None else error.__traceback__

    def done(self) -> bool:
        return self._over()

    def running(self) -> bool:
        return not self._over()

    def cancelled(self) -> bool:
        return self._status is not None and self._status[0] == CANCELLED

    def add_done_callback(self, fn: Callable[[Any], None]) -> None:
        if not self.add_callback(lambda: fn(self)):
            fn(self)

    # grpc.Call

    def cancel(self) -> bool:
        ended = self.finish(CANCELLED, "Locally cancelled by application!")
        if ended:
            self._send(frame(CANCEL, self.number))
        return ended

    def is_active(self) -> bool:
        return not self._over()

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(0, self._deadline - self._task.kernel.now) / SECOND

    def add_callback(self, callback: Callable[[], None]) -> bool:
        if self._over():
            return False
        self._callbacks.append(callback)
        return True

    def code(self) -> Any:
        self._wait(self._over)
        assert self._status is not None
        return _CODES.get(self._status[0], grpc.StatusCode.UNKNOWN)

    def details(self) -> str:
        self._wait(self._over)
        assert self._status is not None
        return self._status[1]

    def initial_metadata(self) -> tuple[()]:
        return ()

    def trailing_metadata(self) -> tuple[()]:
        self._wait(self._over)
        return ()
