"""``harness list`` and ``harness show``."""

from __future__ import annotations

import json

import pytest

from .commands import harness


def test_list_and_show_print_known_names_and_refuse_others(capsys: pytest.CaptureFixture[str]) -> None:
    for what, name in (("locks", "redlock"), ("nemeses", "clock-skew"), ("workloads", "inventory"),
                       ("checkers", "mutual-exclusion"), ("kinds", "redis-sentinel")):  # fmt: skip
        assert harness("list", what) == 0
        shown = capsys.readouterr().out
        assert name in shown
        assert ("[X] broken without any fault" in shown) is (what == "locks")
    assert harness("show", "redlock") == 0
    shown = capsys.readouterr().out
    assert "efficiency" not in shown
    assert "two holders are possible" in shown
    assert harness("list", "lock") == 2
    assert "did you mean locks" in capsys.readouterr().err


def test_third_party_locks_are_listed_with_language_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("list", "locks", "--json") == 0
    locks = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert locks["redis-token"]["library"] == ""
    published = {(row["language"], row["library"].rpartition(" ")[0]) for row in locks.values() if row["library"]}
    assert published >= {
        ("Python", "redis"), ("Python", "kazoo"), ("Java", "redisson"), ("Java", "curator-recipes"),
        ("Go", "github.com/go-redsync/redsync/v4"), ("JavaScript", "redlock"),
        ("PHP", "symfony/lock"), ("PHP", "malkusch/lock"),
    }  # fmt: skip
    assert harness("show", "redisson-lock") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "in containers only" in shown
    assert "its documentation mutual exclusion, prolonged while its holder's client lives" in shown
    assert "rds-one-replica: " in shown
    assert harness("show", "redlock-py") == 0
    assert "rlpy-one-down: " in capsys.readouterr().out, "also where it is called in the way that shows it"
    assert harness("show", "redis-token") == 0
    assert "mistakes" not in capsys.readouterr().out
