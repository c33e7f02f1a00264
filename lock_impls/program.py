"""Locks in other languages: a program beside the client, asked over its stdin and stdout.

``docs/client-protocol.md`` says what such a program has to do; ``harness conformance`` finds out whether it does. One
program has all locks of a client, for as long as the client's process lives, and dies with it.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections import deque
from itertools import count
from typing import Any, ClassVar, Final, Self

import msgspec

from lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo

BUSY: Final = "busy"
"""What a program says when somebody else has the lock."""
SAID: Final = 20
"""Lines of a program's stderr that are kept."""


class ProgramError(Exception):
    """The program did not do what it has to: it died, or its answer is none."""


class Program:
    """A running program. One request at a time; its answers come in the order of the requests."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self._numbers = count(1)
        self._asking = threading.Lock()
        self._said: deque[str] = deque(maxlen=SAID)
        self._listener = threading.Thread(target=self._listen, name="program-stderr", daemon=True)
        self._listener.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """At once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def ask(self, op: str, **fields: Any) -> Any:
        """The value of an ``ok``.

        Raises:
            LockError: ``fail``, known not to have happened.
            Indeterminate: ``info``, or nobody answers any more: nobody knows.
            ProgramError: ``error``, or an answer that is none.
        """
        with self._asking:
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
        except msgspec.DecodeError as error:
            raise ProgramError(f"expected an answer in JSON, got {line[:200]!r}") from error

    def _gone(self) -> Indeterminate:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        return Indeterminate(self.last_words())

    def last_words(self) -> str:
        """Of a program that has ended."""
        self._listener.join(1)
        said = " | ".join(self._said) or "silent"
        return f"the lock program has ended ({self._process.returncode}): {said}"

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line.decode(errors="replace").rstrip())


class ProgramLock:
    """A lock of a program. An adapter derives from it, and says ``info`` and ``command``."""

    info: ClassVar[LockInfo]
    command: ClassVar[tuple[str, ...]]
    """As it is started in the client's container."""
    _running: ClassVar[dict[str, Program]] = {}
    _ended: ClassVar[list[str]] = []
    """What became of programs that ended by themselves."""

    def __init__(self, program: Program, key: str) -> None:
        self._program = program
        self._key = key

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(cls.prepare(endpoints, ttl, **options), key)

    @classmethod
    def prepare(cls, endpoints: Endpoints, ttl: float, **options: Any) -> Program:
        """The program of this process, started and connected unless it is: some take a second for it."""
        running = cls._running.get(cls.info.name)
        if running is not None:
            if running.alive:
                return running
            cls._ended.append(running.last_words())
        program = Program(cls.command)
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
        """How the program failed its client, or nothing: it dies with its client, and never before."""
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
    """For a program that can be asked whether it still has a lock."""

    def still_valid(self) -> bool:
        return bool(self._ask("still_valid"))


class Extends(ProgramLock):
    """For a program that can prolong a lease."""

    def extend(self) -> bool:
        return bool(self._ask("extend"))
