"""Locks in other languages on this machine: their programs as images have them, without the containers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lock_impls.base import Endpoints, LockInfo
from lock_impls.program import Program, ProgramLock


@dataclass
class Apart:
    """Each lock that it opens has a program of its own, as if it were of a client of its own. ``command`` starts one
    on this machine."""

    lock: type[ProgramLock]
    command: tuple[str, ...]
    programs: list[Program] = field(default_factory=list)

    @property
    def info(self) -> LockInfo:
        return self.lock.info

    def open(self, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Any:
        return self.lock(self.connected(endpoints, ttl, **options), key)

    def connected(self, endpoints: Endpoints, ttl: float, **options: Any) -> Program:
        program = self.program()
        connect(program, self.info, endpoints, ttl, **options)
        return program

    def program(self) -> Program:
        """Started, and not opened."""
        self.programs.append(Program(self.command))
        return self.programs[-1]

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *exc: object) -> None:
        for program in self.programs:
            program.end()


def connect(program: Program, info: LockInfo, where: Endpoints, ttl: float, **options: Any) -> None:
    """Its first request."""
    program.ask("open", lock=info.name, kind=where.kind, addresses=where.addresses, service=where.service, ttl=ttl,
                options=options)  # fmt: skip


def answers(program: Program, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a program says to requests that are all there before it has answered one; the last one is ``close``. It
    answers in their order, and ends."""
    stdin, stdout = program._process.stdin, program._process.stdout
    assert stdin
    assert stdout
    stdin.write(b"".join(json.dumps({"id": n, **one}).encode() + b"\n" for n, one in enumerate(requests)))
    said = [json.loads(line) for line in stdout]
    assert [answer["id"] for answer in said] == list(range(len(requests))), said
    assert program._process.wait(2) == 0
    return said


def outcomes(said: Sequence[dict[str, Any]]) -> list[str]:
    """``ok``, ``fail``, ``info`` or ``error``, of each answer."""
    return [next(word for word in answer if word != "id") for answer in said]
