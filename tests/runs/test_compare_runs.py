"""Played comparisons: the contents of cells, their commands, and independence of the number of workers."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.documents import ComparisonDocument, convert, plain
from harness.studies.compare import DOCUMENT, compare, exit_status
from harness.studies.compare.plans import ComparisonRequest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ASKED = ComparisonRequest(locks=("redis-fenced", "etcd-mutex"), nemeses=("client-pause", "failover"), runs=2, seed=3)
WHEN = {"started_at", "seconds"}


def compare_and_read(tmp: Path, workers: int) -> tuple[dict[str, Any], Path]:
    found, folder = compare(ASKED, store=tmp, command="harness compare", workers=workers)
    document = plain(found)
    assert json.loads((folder / DOCUMENT).read_text()) == document
    return document, folder


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    return compare_and_read(tmp_path_factory.mktemp("store"), 1)


def without_times(document: dict[str, Any]) -> str:
    """Return the document without its times, and without names of folders, which contain times."""
    text = json.dumps({name: value for name, value in document.items() if name not in WHEN})
    return re.sub(r"\d{8}T\d{6}Z-(\d+)(-\d+)?", r"when-\1", text)


def test_the_number_of_workers_does_not_change_the_document(
    compared: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    assert without_times(compare_and_read(tmp_path, 2)[0]) == without_times(compared[0])


class Everybodys:
    """A lock that grants every request, so its runs are fast."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def acquire(self, timeout: float) -> bool:
        return bool(self.client.ping())

    def release(self) -> None: ...


def test_a_lock_that_always_grants_is_unsafe_without_faults(tmp_path: Path) -> None:
    locks = (f"{__name__}:Everybodys", "redis-token")
    asked = ComparisonRequest(locks=locks, nemeses=("client-crash",), runs=1, time_limit=10.0)
    document, _ = compare(asked, store=tmp_path, workers=1)
    assert [lock["fault_free"]["state"] for lock in plain(document)["locks"]] == ["unsafe", "safe"]


def test_the_matrix_has_the_expected_states(compared: tuple[dict[str, Any], Path]) -> None:
    document, _ = compared
    states = {lock["name"]: {name: it["state"] for name, it in lock["cells"].items()} for lock in document["locks"]}
    assert states == {
        "redis-fenced": {"client-pause": "fenced", "failover": "unsafe"},
        "etcd-mutex": {"client-pause": "fenced", "failover": "safe"},
    }
    redis, etcd = document["locks"]
    assert redis["cells"]["failover"]["kind"] == "redis-sentinel"
    assert etcd["cells"]["failover"]["fault"] == "leader-loss"
    assert redis["cells"]["client-pause"]["counts"] == {"fenced": 2}
    assert exit_status(convert(document, ComparisonDocument, "it")) == 0


def test_properties_are_measured(compared: tuple[dict[str, Any], Path]) -> None:
    redis, etcd = compared[0]["locks"]
    of = {lock["name"]: {name: it["measured"] for name, it in lock["properties"].items()} for lock in (redis, etcd)}
    assert of["redis-fenced"] == {
        "mutual-exclusion": False, "released": True, "reentrant": False, "no-single-point": False, "fence": False,
    }  # fmt: skip
    assert of["etcd-mutex"] == {
        "mutual-exclusion": True, "released": True, "reentrant": False, "no-single-point": True, "fence": True,
    }  # fmt: skip
    assert "redis-sentinel: granted again" in redis["properties"]["no-single-point"]["found"]
    assert 1.9 < redis["recovery"]["seconds"] < 2.5


def test_costs_reflect_the_number_of_round_trips(compared: tuple[dict[str, Any], Path]) -> None:
    redis, etcd = ({cost["name"]: cost for cost in lock["costs"]} for lock in compared[0]["locks"])
    assert list(redis) == ["alone", "contended", "client-pause", "failover"]
    assert 0 < redis["alone"]["acquire_p50_s"] < etcd["alone"]["acquire_p50_s"] < 0.01
    assert 80 < redis["alone"]["acquires_per_second"] <= redis["contended"]["acquires_per_second"], "nobody rests"
    assert redis["alone"]["availability"] == 1.0
    assert compared[0]["time"] == "virtual"


def runs_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from [value["run"]] if value.get("run") else []
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from runs_of(part)


def test_exactly_the_runs_in_the_document_are_stored_with_reports(compared: tuple[dict[str, Any], Path]) -> None:
    document, folder = compared
    named = {(folder / run).resolve() for run in runs_of(document)}
    assert len(named) == 2 * (2 + 3 + 2)
    assert all((run / "report.html").exists() for run in named)
    store = folder.parent.parent
    assert {path.parent.resolve() for path in store.glob("*/*/results.json")} == named


def test_a_property_run_states_its_purpose(compared: tuple[dict[str, Any], Path]) -> None:
    document, folder = compared
    said = "Can its holder acquire it again? (part of a comparison)"
    probe, cell = document["locks"][0]["properties"]["reentrant"], document["locks"][0]["cells"]["client-pause"]
    assert json.loads((folder / probe["run"] / "results.json").read_text())["plan"]["title"] == said
    assert f"Run for: {said}" in (folder / probe["run"] / "report.html").read_text()
    assert "title" not in json.loads((folder / cell["run"] / "results.json").read_text())["plan"]
    assert "Run for:" not in (folder / cell["run"] / "report.html").read_text()


def test_a_cells_command_repeats_its_run(
    compared: tuple[dict[str, Any], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, folder = compared
    for lock in document["locks"]:
        for cell in lock["cells"].values():
            program, *arguments = shlex.split(cell["command"])
            with pytest.raises(SystemExit):
                main([*arguments, "--out", str(tmp_path), "--json"])
            again, kept = (
                json.loads(capsys.readouterr().out)["runs"][0]["results"],
                json.loads((folder / cell["run"] / "results.json").read_text()),
            )
            assert program == "harness"
            assert again["checkers"] == kept["checkers"]
            assert again["summary"].startswith(cell["why"])
            assert kept["command"] == cell["command"]


def test_an_interrupted_comparison_writes_its_partial_result(tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "harness", "compare", "--locks", "redis-token,redis-setnx,etcd-mutex"),
        *("--cluster", "sim", "--workers", "2", "--out", str(tmp_path), "--json"),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not list(tmp_path.glob("redis-token/*/report.html")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert "Traceback" not in err
    document = json.loads(out)
    assert document["interrupted"]
    missed = [cell for cell in document["locks"][-1]["cells"].values() if not cell["runs"]]
    assert missed
    assert {(cell["state"], "interrupted" in cell["why"]) for cell in missed} == {("unknown", True)}
    (page,) = tmp_path.glob("comparisons/*/comparison.md")
    assert page.read_text().startswith("### Interrupted")
    assert page.with_suffix(".html").exists()
