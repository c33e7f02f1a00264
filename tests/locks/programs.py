"""Locks in other languages on this machine: the same programs as in the images, without containers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.lock_impls.base import Endpoints, LockInfo
from harness.lock_impls.program import LockProgram, ProgramLock


@dataclass
class OwnProgramPerLock:
    """A lock class that starts a separate program for each lock, as if each belonged to a different client.

    ``command`` starts a program on this machine.
    """

    lock: type[ProgramLock]
    command: tuple[str, ...]
    programs: list[LockProgram] = field(default_factory=list)

    @property
    def info(self) -> LockInfo:
        return self.lock.info

    def open(self, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Any:
        return self.lock(self.connected(endpoints, ttl, **options), key)

    def connected(self, endpoints: Endpoints, ttl: float, **options: Any) -> LockProgram:
        program = self.program()
        connect(program, self.info, endpoints, ttl, **options)
        return program

    def program(self) -> LockProgram:
        """Start a program without opening it."""
        self.programs.append(LockProgram(self.command))
        return self.programs[-1]

    def __enter__(self) -> OwnProgramPerLock:
        return self

    def __exit__(self, *exc: object) -> None:
        for program in self.programs:
            program.end()


def connect(program: LockProgram, info: LockInfo, where: Endpoints, ttl: float, **options: Any) -> None:
    """Send the first request, ``open``."""
    program.ask("open", lock=info.name, kind=where.kind, addresses=where.addresses, service=where.service,
                account=where.account, ttl=ttl, options=options)  # fmt: skip


def answers(program: LockProgram, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a program's answers to requests that are all sent before the first answer is read; the last request is
    ``close``.

    Checks that the answers come in order and that the program ends.
    """
    stdin, stdout = program._process.stdin, program._process.stdout
    assert stdin
    assert stdout
    stdin.write(b"".join(json.dumps({"id": n, **one}).encode() + b"\n" for n, one in enumerate(requests)))
    replies = [json.loads(line) for line in stdout]
    assert [answer["id"] for answer in replies] == list(range(len(requests))), replies
    assert program._process.wait(60) == 0
    return replies


def outcomes(replies: Sequence[dict[str, Any]]) -> list[str]:
    """Reduce each answer to ``ok``, ``fail``, ``info`` or ``error``."""
    return [next(word for word in answer if word != "id") for answer in replies]
