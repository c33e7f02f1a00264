"""``harness fidelity``: its lines, its document, its exit status, and the figures that it keeps."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.cli.fidelity import figure_line, percent
from harness.cli.main import main
from harness.documents import load_fidelity
from harness.documents.fidelity import FidelityFigure
from harness.fidelity.catalogue import SERVERS
from harness.fidelity.comparison import Step
from harness.studies.fidelity import BLOCK
from harness.studies.results_db import RESULTS_DB, add_fidelity, fidelity
from tests.fidelity.fake_server import FakeServer, agrees, forgets_after_two_large_numbers

Capsys = pytest.CaptureFixture[str]


def use(monkeypatch: pytest.MonkeyPatch, server: FakeServer) -> None:
    """Make this the only server."""
    monkeypatch.setattr("harness.studies.fidelity.SERVERS", {"fake": server})


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["fidelity", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_agreement_is_one_line_and_status_0(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeServer(agrees))
    assert run("--seeds", 4, "--out", tmp_path) == 0
    line, document = capsys.readouterr().out.splitlines()
    assert line == "fake-server 1.0: 200 commands, 0 divergences, 100 %"
    stored = load_fidelity(Path(document.removeprefix("document: ")))
    assert (stored.servers[0].steps, stored.servers[0].seeds, stored.status) == (200, 4, 0)


def test_undocumented_divergence_is_shown_and_is_status_1(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FakeServer(forgets_after_two_large_numbers))
    assert run("--seeds", 1, "--out", tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert ", 1 divergence, 9" in lines[0]
    assert lines[1] == "divergence, seed 0:"
    assert [line.startswith("  ('set', ") for line in lines[2:5]] == [True] * 3
    assert lines[5:7] == ["  real:      ok", "  simulated: lost True"]


def test_documented_difference_is_named_and_is_status_0(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FakeServer(forgets_after_two_large_numbers, documented=lambda _step: "Losses"))
    assert run("--seeds", 3, "--out", tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ", 0 divergences, 1 documented difference, 9" in lines[0]
    assert lines[1] == "documented: Losses"


def test_interrupted_comparison_is_stored_and_is_status_3(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(_done: list[Step]) -> str:
        if server.pair.executed == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return "ok"

    server = FakeServer(simulated)
    use(monkeypatch, server)
    assert run("--out", tmp_path) == 3
    line, told, document = capsys.readouterr().out.splitlines()
    assert line == "fake-server 1.0: 50 commands, 0 divergences, 100 %"
    assert told.startswith("interrupted")
    assert load_fidelity(Path(document.removeprefix("document: "))).interrupted
    assert [one.steps for one in fidelity(tmp_path / RESULTS_DB)] == [50]


@pytest.mark.real
@pytest.mark.slow
def test_several_workers_compare_the_same_sequences_as_one(tmp_path: Path, capsys: Capsys) -> None:
    found = []
    for workers in (1, 2):
        run("--server", "redis", "--seeds", 2 * BLOCK, "--workers", workers, "--out", tmp_path, "--json")
        found.append(json.loads(capsys.readouterr().out)["servers"][0])
    alike = ("server", "version", "seeds", "steps", "differing")
    assert [found[0][name] for name in alike] == [found[1][name] for name in alike]


def test_missing_server_is_one_message_and_status_4(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FakeServer(agrees, missing="fake-server is not installed: apt-get install fake"))
    assert run("--out", tmp_path / "store") == 4
    assert capsys.readouterr().err == (
        "harness: fake-server is not installed: apt-get install fake; or choose other servers with --server\n"
    )
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--server", "rdis"), "server: expected one of redis"),
        (("--budget", "0s"), "budget must be more than 0"),
        (("--seeds", "-1"), "seeds must not be negative"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(arguments: tuple[str, ...], said: str, capsys: Capsys) -> None:
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_figures_are_kept_and_shown(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeServer(agrees))
    assert run("--history", "--out", tmp_path) == 2
    assert "contains no comparison of servers: 'harness fidelity' makes one" in capsys.readouterr().err
    run("--seeds", 1, "--out", tmp_path)
    use(monkeypatch, FakeServer(forgets_after_two_large_numbers))
    run("--seeds", 1, "--out", tmp_path, "--json")
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [one["steps"] for one in document["history"]] == [50]
    assert run("--history", "--out", tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("Z  fake-server 1.0: 50 commands, 0 divergences, 100 %")
    assert ", 1 divergence, " in lines[1]
    assert run("--history", "--out", tmp_path, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["history"]) == 2


def figure(steps: int = 1000, differing: int = 0, undocumented: int = 0) -> FidelityFigure:
    return FidelityFigure(
        started_at=datetime(2026, 11, 25, 16, tzinfo=UTC), server="redis", version="redis-server 7.0.15", steps=steps,
        differing=differing, undocumented=undocumented,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "differing", "text"),
    [(1000, 0, "100 %"), (10**9, 1, "99.999 %"), (200, 1, "99.5 %"), (3, 1, "66.666 %"), (0, 0, "nothing compared")],
)
def test_percentage_is_never_rounded_up(steps: int, differing: int, text: str) -> None:
    assert percent(figure(steps, differing)) == text


def test_line_has_the_figures() -> None:
    assert figure_line(figure(200_312)) == "redis-server 7.0.15: 200,312 commands, 0 divergences, 100 %"


def test_database_of_an_older_harness_gets_the_table(tmp_path: Path) -> None:
    from harness.studies.results_db import APPLICATION, MIGRATIONS

    path = tmp_path / RESULTS_DB
    with sqlite3.connect(path) as connection:
        for statements in MIGRATIONS[:3]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("PRAGMA user_version = 3")
    assert fidelity(path) == []
    add_fidelity(path, [figure(), figure(5)])
    assert [one.steps for one in fidelity(path)] == [1000, 5]
    assert fidelity(path)[0] == figure()


def test_catalogue_has_each_server_by_its_name() -> None:
    assert {name: server.name for name, server in SERVERS.items()} == {name: name for name in SERVERS}


@pytest.mark.real
def test_redis_is_compared_with_the_server_of_this_machine(tmp_path: Path, capsys: Capsys) -> None:
    assert run("--server", "redis", "--seeds", 1, "--out", tmp_path) == 0
    assert capsys.readouterr().out.startswith("redis-server 7.0.")
