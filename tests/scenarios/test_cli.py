"""The command ``harness scenario``: its output, exit statuses and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.run.plans.lock_facts import stated_origin
from harness.run.store import HISTORY, PLAN, RESULTS
from harness.wording import as_sentence

FAILURE = """
lock = "redis-token"
clients = 3
hold = "3s"
time_limit = "8s"

[expect]
safe = false
invalid = ["{checker}"]
"""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["scenario", *arguments])
    return int(ended.value.code or 0)


def test_list_and_show_print_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "ttl-pause-write*", "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert {"ttl-pause-write", "ttl-pause-write.safe"} <= {entry["name"] for entry in entries}
    assert entries[0]["clusters"] == ["sim", "docker"]
    assert run("list", "setnx-*") == 0
    assert "setnx-crash.safe" in capsys.readouterr().out
    assert run("show", "setnx-expire-gap") == 0
    told = capsys.readouterr().out
    assert "deadlock violated" in told
    assert "request:EXPIRE" in told
    assert "harness scenario run setnx-expire-gap --cluster docker" in told
    assert run("show", "rl-pause-inflight.node") == 0
    assert "on sim     a scenario for docker only" in capsys.readouterr().out


def test_list_and_show_say_that_a_model_is_not_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    model = "a model of Dispose of RedLock.net 2.2.0 (RedLockNet.SERedis/RedLock.cs, line 571), not RedLock.net itself"
    assert run("show", "extend-vs-dispose") == 0
    assert model in " ".join(capsys.readouterr().out.split())
    assert run("list", "extend-vs-dispose") == 0
    assert model in capsys.readouterr().out
    assert run("list", "azk-waiter-reset", "--json") == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["what_runs"] == "the Python package aiozk 0.32.0, unmodified"


@pytest.mark.parametrize(
    ("lock", "sentence"),
    [
        ("redis-py-lock", "The Python package redis 8.1.0, unmodified."),
        ("redisson-lock", "The Java package redisson 4.7.0, unmodified."),
        (
            "harness.scenarios.locks.sherlock:FloatLease",
            "The unmodified sherlock (0.4.1) in a program with leases that are floats (sherlock/lock.py).",
        ),
    ],
)
def test_what_runs_names_a_package_not_its_service_and_keeps_its_case(lock: str, sentence: str) -> None:
    origin = stated_origin(lock)
    assert origin is not None
    assert as_sentence(origin.sentence) == sentence


def test_show_prints_why_a_cure_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "ttl-pause-write.safe") == 0
    assert "unlike its failure" in capsys.readouterr().out


@pytest.mark.slow
def test_run_reports_expected_and_missed_violations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "store")
    assert run("run", "ttl-overrun", "ttl-overrun.safe", "--out", store) == 0
    assert capsys.readouterr().out.count("as-expected") == 2
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(FAILURE.format(checker="deadlock"))
    assert run("run", str(wrong), "--out", store) == 1
    assert "missed" in capsys.readouterr().out
    document = json.loads((tmp_path / "store" / "latest" / RESULTS).read_text())
    assert document["scenario"]["state"] == "missed"


@pytest.mark.slow
def test_running_a_stored_plan_repeats_the_run(tmp_path: Path) -> None:
    assert run("run", "ttl-pause-write", "--seed", "3", "--out", str(tmp_path / "one")) == 0
    first = tmp_path / "one" / "latest"
    assert run("run", str(first / PLAN), "--out", str(tmp_path / "two")) == 0, (
        "the stored plan contains the expectation"
    )
    again = tmp_path / "two" / "latest"
    assert (again / HISTORY).read_bytes() == (first / HISTORY).read_bytes()
    assert (again / PLAN).read_bytes() == (first / PLAN).read_bytes()


def test_plan_without_expectation_exits_like_a_run(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(FAILURE.partition("[expect]")[0])
    assert run("run", str(plan), "--out", str(tmp_path), "--quiet") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('ttll = 3\nlock = "redis-token"', ("unknown key 'ttll'", "ttl")),
        ('lock = "redis-token"\nttl = "soon"', ("ttl", "a duration such as")),
        ('lock = "redis-token"\nclients = "five"', ("clients", "int")),
        ('lock = "redis-tokn"', ("redis-tokn", "redis-token")),
        (FAILURE.format(checker="resorce"), ("expect", "resorce", "resource")),
        ('lock = "redis-token"\n[expect]\nsafe = false', ("expect.invalid",)),
        ('lock = "redis-token"\n[expect]\nsafe = true\nwithin = "90s"', ("expect.within", "30")),
        (
            'lock = "redis-token"\n[expect]\nsafe = true\nvalid = ["fencing"]\ninvalid = ["fencing"]',
            ("fencing", "once"),
        ),
        ('lock = "redis-token"\n[[faults]]\nfault = "client-pause"\non = "acquire"\nfore = 3', ("faults[0].fore",)),
        ('lock = "redis-token"\n[[faults]]\nfault = "client-paus"\non = "acquire"', ("client-paus", "client-pause")),
        ("lock = ", ("TOML",)),
    ],
)
def test_invalid_file_is_one_error_line(
    text: str, said: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "story.toml"
    path.write_text(text)
    assert run("run", str(path), "--out", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert error.startswith("harness: ")
    assert str(path) in error
    assert error.count("\n") == 1
    for word in said:
        assert word in error


def test_unknown_name_and_unsuitable_cluster_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", "ttl-pause-wrote") == 2
    assert "ttl-pause-write" in capsys.readouterr().err
    assert run("run", "hz-lock", "--cluster", "sim", "--out", str(tmp_path)) == 2
    assert "--cluster docker" in capsys.readouterr().err
    assert run("list", "no-such-*") == 2
