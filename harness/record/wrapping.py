"""Locks whose calls are recorded, and that otherwise behave like the locks they wrap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from .writing import Writer, json_text

LOST: Final = -1
"""In place of a process: the call was not recorded."""
CONTEXT: Final = '{"context":true}'
"""Value of an acquire at the beginning of a ``with``, as in ``docs/histories.md``."""
EXTENDED: Final = '{"extended":true}'
NOT_EXTENDED: Final = '{"extended":false}'
LONGEST_ERROR: Final = 200
"""The most characters of an error that are recorded."""
FromAnswer = Callable[[Any, Any], Any]
"""Computes something from a lock and what its acquire returned."""


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """How the answers of a lock are read; :meth:`.Recorder.wrap` describes the fields."""

    granted: Callable[[Any], bool]
    valid_for: float | FromAnswer | None
    fence: FromAnswer | None
    refused: tuple[type[BaseException], ...]

    def fixed(self) -> bool:
        """Return whether all grants have the same value."""
        return self.fence is None and not callable(self.valid_for)

    def grant(self, lock: Any, answer: Any, *, context: bool) -> dict[str, Any]:
        """Return the value of a grant in the history."""
        seconds = self.valid_for(lock, answer) if callable(self.valid_for) else self.valid_for
        value = {"valid_for": seconds, "fence": None if self.fence is None else self.fence(lock, answer)}
        return {**value, "context": True} if context else value


class Client:
    """The holder that a lock object stands for. No method raises an exception."""

    __slots__ = ("_fixed", "_idle", "_key", "_number", "_rules", "_writer")

    def __init__(self, writer: Writer, key: str, rules: AnswerRules) -> None:
        self._writer, self._key, self._rules, self._number = writer, key, rules, writer.new_client()
        self._idle: list[int] = []
        """Numbers of processes that are in no call."""
        self._fixed: tuple[str, str] | None = None
        """The value of each grant as JSON, without and with a context."""
        if rules.fixed():
            self._fixed = (
                json_text(rules.grant(None, None, context=False)), json_text(rules.grant(None, None, context=True))
            )  # fmt: skip

    def begin(self, f: str, value: str | None = None) -> int:
        """Record that a call begins; return its process, or LOST."""
        try:
            process = self._idle.pop()
        except IndexError:
            process = self._writer.new_process()
        if self._writer.invoke(process, f, self._key, value, self._number):
            return process
        self._idle.append(process)
        return LOST

    def end(self, process: int, kind: str, f: str, value: Any = None, error: str | None = None) -> None:
        """Record how a call ended: ok, fail or info."""
        if process != LOST:
            self._writer.complete(process, kind, f, self._key, value, self._number, error)
            if kind != "info":
                self._idle.append(process)

    def raised(self, process: int, f: str, error: BaseException) -> None:
        """Record that a call raised an exception."""
        kind = "fail" if isinstance(error, self._rules.refused) else "info"
        self.end(process, kind, f, None, _error_text(error))

    def granted(self, process: int, lock: Any, answer: Any, *, context: bool = False) -> None:
        """Record the answer of an acquire. Its outcome is unknown if a function of the user raises."""
        try:
            if not context and not self._rules.granted(answer):
                self.end(process, "fail", "acquire")
                return
            value: Any = self._fixed[context] if self._fixed else self._rules.grant(lock, answer, context=context)
        except Exception as error:  # noqa: BLE001 - the user's function; the application must not get its exception
            self.end(process, "info", "acquire", None, f"the options of wrap: {_error_text(error)}")
            return
        self.end(process, "ok", "acquire", value)


def _error_text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
    except Exception:  # noqa: BLE001 - a __str__ that raises
        return type(error).__name__


class _Recorded:
    """Base of the two kinds of recorded locks. Attributes that are not recorded are the lock's own."""

    def __init__(self, lock: Any, client: Client) -> None:
        self._lock, self._client = lock, client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


class RecordedLock(_Recorded):
    """A lock whose ``acquire``, ``release``, ``extend`` and ``with`` are recorded."""

    def acquire(self, *arguments: Any, **named: Any) -> Any:
        process = self._client.begin("acquire")
        try:
            answer = self._lock.acquire(*arguments, **named)
        except BaseException as error:
            self._client.raised(process, "acquire", error)
            raise
        self._client.granted(process, self._lock, answer)
        return answer

    def release(self, *arguments: Any, **named: Any) -> Any:
        process = self._client.begin("release")
        try:
            answer = self._lock.release(*arguments, **named)
        except BaseException as error:
            self._client.raised(process, "release", error)
            raise
        self._client.end(process, "ok", "release")
        return answer

    def extend(self, *arguments: Any, **named: Any) -> Any:
        process = self._client.begin("extend")
        try:
            answer = self._lock.extend(*arguments, **named)
        except BaseException as error:
            self._client.raised(process, "extend", error)
            raise
        self._client.end(process, "ok", "extend", EXTENDED if answer else NOT_EXTENDED)
        return answer

    def __enter__(self) -> Any:
        process = self._client.begin("acquire", CONTEXT)
        try:
            answer = self._lock.__enter__()
        except BaseException as error:
            self._client.raised(process, "acquire", error)
            raise
        self._client.granted(process, self._lock, answer, context=True)
        return self if answer is self._lock else answer

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> Any:
        process = self._client.begin("release")
        try:
            answer = self._lock.__exit__(kind, raised, trace)
        except BaseException as error:
            self._client.raised(process, "release", error)
            raise
        self._client.end(process, "ok", "release")
        return answer


class AsyncRecordedLock(_Recorded):
    """A lock whose coroutines ``acquire``, ``release`` and ``extend``, and ``async with``, are recorded."""

    async def acquire(self, *arguments: Any, **named: Any) -> Any:
        process = self._client.begin("acquire")
        try:
            answer = await self._lock.acquire(*arguments, **named)
        except BaseException as error:
            self._client.raised(process, "acquire", error)
            raise
        self._client.granted(process, self._lock, answer)
        return answer

    async def release(self, *arguments: Any, **named: Any) -> Any:
        process = self._client.begin("release")
        try:
            answer = await self._lock.release(*arguments, **named)
        except BaseException as error:
            self._client.raised(process, "release", error)
            raise
        self._client.end(process, "ok", "release")
        return answer

    async def extend(self, *arguments: Any, **named: Any) -> Any:
        process = self._client.begin("extend")
        try:
            answer = await self._lock.extend(*arguments, **named)
        except BaseException as error:
            self._client.raised(process, "extend", error)
            raise
        self._client.end(process, "ok", "extend", EXTENDED if answer else NOT_EXTENDED)
        return answer

    async def __aenter__(self) -> Any:
        process = self._client.begin("acquire", CONTEXT)
        try:
            answer = await self._lock.__aenter__()
        except BaseException as error:
            self._client.raised(process, "acquire", error)
            raise
        self._client.granted(process, self._lock, answer, context=True)
        return self if answer is self._lock else answer

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> Any:
        process = self._client.begin("release")
        try:
            answer = await self._lock.__aexit__(kind, raised, trace)
        except BaseException as error:
            self._client.raised(process, "release", error)
            raise
        self._client.end(process, "ok", "release")
        return answer
