"""Locks in other languages: a program beside the client, which speaks JSON lines on stdin and stdout.

``docs/client-protocol.md`` says what such a program has to do, and ``harness conformance`` tests it. One program serves
all locks of a client. It runs for as long as the client's process, and dies with it.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections import deque
from itertools import count
from typing import Any, ClassVar, Final, Self

import msgspec

from .base import Endpoints, Grant, Indeterminate, LockError, LockInfo

BUSY: Final = "busy"
"""A program's answer when another client holds the lock."""
KEPT_STDERR_LINES: Final = 20
"""Number of lines kept of a program's stderr."""


class ProgramError(Exception):
    """The program broke the protocol: it died, or sent something that is not an answer."""


class LockProgram:
    """A running lock program. It handles one request at a time and answers in the order of the requests."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self._numbers = count(1)
        self._one_request = threading.Lock()
        self._stderr_lines: deque[str] = deque(maxlen=KEPT_STDERR_LINES)
        self._listener = threading.Thread(target=self._listen, name="program-stderr", daemon=True)
        self._listener.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the program at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def ask(self, op: str, **fields: Any) -> Any:
        """Send a request and return the value of its ``ok`` answer.

        Raises:
            LockError: the program answered ``fail``: the call is known not to have happened.
            Indeterminate: the program answered ``info``, or answers no more: the outcome is unknown.
            ProgramError: the program answered ``error``, or its answer is malformed.
        """
        with self._one_request:
            number = next(self._numbers)
            answer = self._answer(msgspec.json.encode({"id": number, "op": op, **fields}))
        if not isinstance(answer, dict) or answer.get("id") != number:
            raise ProgramError(f"expected the answer to request {number} ({op}), got {answer!r:.200}")
        match answer:
            case {"ok": value}:
                return value
            case {"fail": text}:
                raise LockError(str(text))
            case {"info": text}:
                raise Indeterminate(str(text))
        raise ProgramError(f"{op}: {answer.get('error', answer)}")

    def _answer(self, request: bytes) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(request + b"\n")
            line = self._process.stdout.readline()
        except OSError as error:
            raise self._gone() from error
        if not line.endswith(b"\n"):
            raise self._gone()
        try:
            return msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProgramError(f"expected an answer in JSON, got {line[:200]!r}") from error

    def _gone(self) -> Indeterminate:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        return Indeterminate(self.last_words())

    def last_words(self) -> str:
        """Describe how the program ended: its exit status, and the last lines of its stderr."""
        self._listener.join(1)
        lines = " | ".join(self._stderr_lines) or "silent"
        return f"the lock program has ended ({self._process.returncode}): {lines}"

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._stderr_lines.append(line.decode(errors="replace").rstrip())


class ProgramLock:
    """A lock that a program in another language implements. Subclasses set ``info`` and ``command``."""

    info: ClassVar[LockInfo]
    command: ClassVar[tuple[str, ...]]
    """The command that starts the program in the client's container."""
    _running: ClassVar[dict[str, LockProgram]] = {}
    _ended: ClassVar[list[str]] = []
    """Last words of programs that ended by themselves."""

    def __init__(self, program: LockProgram, key: str) -> None:
        self._program = program
        self._key = key

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(cls.prepare(endpoints, ttl, **options), key)

    @classmethod
    def prepare(cls, endpoints: Endpoints, ttl: float, **options: Any) -> LockProgram:
        """Return this process's program, and start and connect it first if needed; for some that takes a second."""
        running = cls._running.get(cls.info.name)
        if running is not None:
            if running.alive:
                return running
            cls._ended.append(running.last_words())
        program = LockProgram(cls.command)
        try:
            program.ask("open", lock=cls.info.name, kind=endpoints.kind, addresses=endpoints.addresses,
                        service=endpoints.service, account=endpoints.account, ttl=ttl, options=options)  # fmt: skip
        except BaseException:
            program.end()
            raise
        cls._running[cls.info.name] = program
        return program

    @classmethod
    def failure(cls) -> str:
        """Describe how the program failed its client; empty if it did not. A program must not end before its client."""
        running = cls._running.get(cls.info.name)
        now = [] if running is None or running.alive else [running.last_words()]
        return next(iter([*cls._ended, *now]), "")

    def acquire(self, timeout: float) -> Grant | None:
        try:
            grant = self._ask("acquire", timeout=timeout)
        except LockError as refusal:
            if str(refusal) == BUSY:
                return None
            raise
        if grant is None:
            return Grant()
        if not isinstance(grant, dict):
            raise ProgramError(f"acquire: expected null or an object with fence and valid_for, got {grant!r:.200}")
        return Grant(fence=grant.get("fence"), valid_for=grant.get("valid_for"))

    def release(self) -> None:
        self._ask("release")

    def _ask(self, op: str, **fields: Any) -> Any:
        return self._program.ask(op, key=self._key, **fields)


class Checks(ProgramLock):
    """A lock whose program supports ``still_valid``."""

    def still_valid(self) -> bool:
        return bool(self._ask("still_valid"))


class Extends(ProgramLock):
    """A lock whose program supports ``extend``."""

    def extend(self) -> bool:
        return bool(self._ask("extend"))
