"""The recorded commands of the catalogue's Redis locks are those that the locks send."""

from __future__ import annotations

from random import Random

import pytest

from harness.fidelity.redis.vocabulary import LOCK_KEYS, Vocabulary, recorded, template
from tests.fidelity.record_redis import KEY, record


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_every_command_of_every_lock_is_recorded(every: int) -> None:
    known, now = recorded(), record(every)
    missing = {
        lock: text
        for text, locks in now.commands.items()
        for lock in locks
        if lock not in known.commands.get(text, ())
    }  # fmt: skip
    assert not missing, f"not recorded: {missing}; run: python -m tests.fidelity.record_redis"
    assert set(now.scripts) <= set(known.scripts)
    gone = set(known.commands) - set(now.commands)
    assert every > 1 or not gone, f"no lock sends {gone} any more; run: python -m tests.fidelity.record_redis"


def test_template_has_no_key_token_lease_or_script() -> None:
    key, token = f"conformance:{'0f' * 16}", "3bc1dece-b137-41ee-aa3e-6c8571d89384"
    assert template([b"SET", f"l:{key}".encode(), token.encode(), b"NX", b"PX", b"30000"], KEY) == (
        ["SET", "l:{key}", "{token}", "NX", "PX", "{number}"],
        {},
    )
    words, scripts = template([b"EVAL", b"return 12", b"1", key.encode(), b"5"], KEY)
    (sha,) = scripts
    assert words == ["EVAL", f"{{script {sha}}}", "1", "{key}", "5"]
    assert scripts == {sha: "return 12"}


def test_drawn_commands_are_complete() -> None:
    vocabulary = Vocabulary(Random(1))
    drawn = [vocabulary.draw() for _ in range(2000)] + vocabulary.loads()
    assert not [word for words in drawn for word in words if "{key}" in word or "{token}" in word or "{scr" in word]
    assert {words[0].lower() for words in drawn} >= {"set", "evalsha", "script", "blpop", "subscribe", "multi", "wait"}
    assert {words[1] for words in drawn if words[0] == "DEL"} & set(LOCK_KEYS)
