"""Locks in other languages from the client's side: each answer becomes its outcome, and a misbehaving program is an
error, not an outcome of the lock."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest

from harness.errors import LockFailed, UsageError
from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.constructor_arguments import UserLockError
from harness.lock_impls.program import Checks, Extends, LockProgram, ProgramError
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.worker.client_program import ClientJob, LockPreparation, prepare, run

SERVERS = Endpoints("redis-single", (("10.0.0.2", 6379),))
SCRIPTED_PROGRAM = """
import json, sys
opened = None
for line in sys.stdin:
    asked = json.loads(line)
    number, op, key = asked["id"], asked["op"], asked.get("key")
    if op == "open":
        opened = asked
        answer = {"fail": "no server there"} if asked["options"].get("refuse") else {"ok": None}
    elif key == "what was opened":
        answer = {"fail": json.dumps(opened)}
    elif key == "die":
        print("out of memory", file=sys.stderr)
        sys.exit(9)
    elif key == "babble":
        print("INFO connected", flush=True)
        continue
    elif key == "half a line":
        print('{"id"', end="")
        sys.exit(0)
    elif key == "another's":
        number, answer = number - 1, {"ok": None}
    elif op in ("still_valid", "extend"):
        answer = {"ok": key == "mine"}
    else:
        answer = json.loads(key)
    print(json.dumps({"id": number, **answer}), flush=True)
"""


class ScriptedProgramLock(Checks, Extends):
    """A program whose answers are given by the key."""

    info: ClassVar = LockInfo(
        name="played", title="", algorithm="", source="", safety="E", kinds=("redis-single",), language="Rust",
        runtime="rust",
    )  # fmt: skip
    command: ClassVar = (sys.executable, "-c", SCRIPTED_PROGRAM)


@pytest.fixture(autouse=True)
def no_program_is_left() -> Iterator[None]:
    yield
    running: dict[str, LockProgram] = ScriptedProgramLock._running
    ScriptedProgramLock._ended.clear()
    if (program := running.pop("played", None)) is not None:
        program.end()


def lock(key: str, **options: object) -> ScriptedProgramLock:
    return ScriptedProgramLock.open(SERVERS, key, 2.0, **options)


def test_grant_has_the_values_of_the_answer() -> None:
    assert lock('{"ok": {"fence": 33, "valid_for": 1.9}}').acquire(1.0) == Grant(33, 1.9)
    assert lock('{"ok": null}').acquire(1.0) == Grant()
    assert lock('{"ok": {"fence": "7f"}}').acquire(0) == Grant("7f", None)


def test_busy_is_not_acquired() -> None:
    assert lock('{"fail": "busy"}').acquire(1.0) is None


def test_refusal_other_than_busy_is_an_error_with_its_text() -> None:
    refused = lock('{"fail": "not the holder"}')
    with pytest.raises(LockError, match=r"^not the holder$"):
        refused.release()
    with pytest.raises(LockError, match=r"^not the holder$"):
        refused.acquire(0)


def test_info_answer_is_indeterminate() -> None:
    unknown = lock('{"info": "read timed out"}')
    with pytest.raises(Indeterminate, match=r"^read timed out$"):
        unknown.release()
    with pytest.raises(Indeterminate, match=r"^read timed out$"):
        unknown.acquire(0)


def test_still_valid_and_extend_return_the_answer() -> None:
    mine, lost = lock("mine"), lock("not mine")
    assert (mine.still_valid(), lost.still_valid()) == (True, False)
    assert (mine.extend(), lost.extend()) == (True, False)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ('{"error": "unknown op"}', "acquire: unknown op"),
        ('{"mood": "fine"}', "acquire: .*mood"),
        ("another's", "expected the answer to request"),
        ("babble", "expected an answer in JSON, got b'INFO connected"),
        ('{"ok": true}', "expected null or an object with fence and valid_for, got True"),
    ],
)
def test_malformed_answer_is_a_program_error(key: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        lock(key).acquire(0)


@pytest.mark.parametrize(("key", "status"), [("die", "9.*out of memory"), ("half a line", "0.*silent")])
def test_call_of_a_program_that_died_is_indeterminate(key: str, status: str) -> None:
    with pytest.raises(Indeterminate, match=f"the lock program has ended \\({status}"):
        lock(key).acquire(0)
    assert lock("mine").still_valid(), "the next lock has a new program"
    assert re.search(status, ScriptedProgramLock.failure()), "the first program's end is still reported"


def test_client_fails_if_its_lock_program_died() -> None:
    plan = Plan(lock="tests.locks.test_program:ScriptedProgramLock", cluster="docker")
    job = ClientJob(plan=plan, node="c0", generation=0, kind="redis-single", addresses=(), resource=("", 0), began_ns=0)
    run(job, lambda **_: None, lambda: None, ScriptedProgramLock)
    assert ScriptedProgramLock.failure() == ""
    with pytest.raises(Indeterminate):
        lock("die").acquire(0)
    with pytest.raises(LockFailed, match=r"the lock program has ended .*out of memory"):
        run(job, lambda **_: None, lambda: None, ScriptedProgramLock)


def test_program_is_started_before_the_run() -> None:
    prepare(
        LockPreparation(
            name="tests.locks.test_program:ScriptedProgramLock", kind="redis-single", addresses=(), ttl=1.0, options={}
        )
    )
    assert ScriptedProgramLock._running["played"].alive


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"command": "/usr/bin/mylock"}, "a tuple of texts, got '/usr/bin/mylock'"),
        ({"command": None}, "a tuple of texts, got None"),
        ({"info": None}, "info must be a LockInfo"),
        ({"info": replace(ScriptedProgramLock.info, runtime="")}, "the image that its program is in as runtime"),
    ],
)
def test_incomplete_adapter_is_refused(wrong: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in wrong.items():
        monkeypatch.setattr(ScriptedProgramLock, name, value)
    with pytest.raises(UserLockError, match=re.escape(message)):
        catalogue.resolve("tests.locks.test_program:ScriptedProgramLock")


def test_unknown_lock_option_is_refused() -> None:
    plan = Plan(lock="tests.locks.test_program:ScriptedProgramLock", cluster="docker", lock_options={"foo": 1})
    with pytest.raises(UsageError, match="has no lock_options, got 'foo'"):
        complete(plan)


def test_locks_of_a_client_share_one_program() -> None:
    first, second = lock("mine"), lock("not mine")
    assert first._program is second._program


def test_open_request_has_the_servers_addresses() -> None:
    with pytest.raises(
        LockError,
        match=r'"addresses": \[\["10.0.0.2", 6379\]\], "service": "mymaster", "account": "harness", "ttl": 2.0',
    ):
        lock("what was opened").release()


def test_program_that_refused_open_is_not_used() -> None:
    with pytest.raises(LockError, match="no server there"):
        lock("mine", refuse=True)
    assert lock("mine").still_valid()


def test_simulator_is_refused_before_anything_starts() -> None:
    plan = Plan(lock="tests.locks.test_program:ScriptedProgramLock", cluster="sim")
    with pytest.raises(UsageError, match=r"is a lock for Rust.*--cluster docker$"):
        complete(plan)
    assert complete(Plan(lock=plan.lock, cluster="docker")).kind == "redis-single"
