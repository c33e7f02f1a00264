"""The commands ``harness check`` and ``harness export``, as users type them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from harness import FaultSpec, Plan, run
from harness.cli.main import main
from harness.documents import CheckDocument
from harness.history import History, Op

GOOD = """{:process 0, :type :invoke, :f :acquire, :value nil}
{:process 0, :type :ok, :f :acquire, :value nil}
{:process 0, :type :invoke, :f :release, :value nil}
{:process 0, :type :ok, :f :release, :value nil}
"""
BAD = """{:process 0, :type :invoke, :f :acquire, :value nil}
{:process 0, :type :ok, :f :acquire, :value nil}
{:process 1, :type :invoke, :f :acquire, :value nil}
{:process 1, :type :ok, :f :acquire, :value nil}
"""
MODEL = """
from harness.checkers.models import Inconsistent, Model

class Counter(Model):
    fs = frozenset({"add"})
    clients = False

    def __init__(self, start=0):
        self.start = start

    @property
    def initial(self):
        return self.start

    def step(self, state, operation):
        after = state + operation.argument
        if operation.known and operation.result != after:
            return Inconsistent(f"the sum is {after}")
        return after

class Nothing:
    pass
"""


def exit_status_of(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_exit_status_and_output_give_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.edn", tmp_path / "bad.edn.gz"
    good.write_text(GOOD)
    bad.write_bytes(gzip.compress(BAD.encode()))
    assert exit_status_of("check", good, "--model", "mutex") == 0
    assert "VALID: mutex" in capsys.readouterr().out
    picture = tmp_path / "why.html"
    assert exit_status_of("check", bad, "--model", "owner-mutex", "--html", picture) == 1
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "VIOLATION: owner-mutex" in said
    assert "gets past entry 3, where process 1's acquire returned: process 0 holds it" in said
    assert "process 1" in picture.read_text()
    assert exit_status_of("check", good, "--model", "mutex", "--quiet") == 0
    assert capsys.readouterr().out == "VALID\n"


def test_mistyped_functions_are_counted_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mistyped.edn"
    path.write_text(GOOD + GOOD.replace(":acquire", ":acquire!").replace(":release", ":release!"))
    assert exit_status_of("check", path, "--model", "mutex") == 0
    assert "2 of other functions ignored (acquire! 1, release! 1)" in capsys.readouterr().out
    assert exit_status_of("check", path, "--model", "mutex", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ignored_calls"] == {"acquire!": 1, "release!": 1}
    path.write_text(BAD.replace(":acquire", ":acquire!"))
    assert exit_status_of("check", path, "--model", "mutex") == 2
    message = capsys.readouterr().err.strip()
    assert message.count("\n") == 0
    assert "no call of the history fits the model mutex" in message
    assert "got only acquire!" in message


@pytest.mark.parametrize("model", ["owner-mutex", "rw-lock", "models:Rw"])
def test_clients_named_in_edn_values_own_locks_of_every_model(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process acquires, and another process of the same client releases."""
    (tmp_path / "models.py").write_text(
        "from harness.checkers.models import ReadWriteLock\n\nclass Rw(ReadWriteLock):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    text = GOOD.replace(":value nil", ':value {:client "a"}')
    path = tmp_path / "named.edn"
    path.write_text(
        text.replace(":process 0, :type :invoke, :f :rel", ":process 7, :type :invoke, :f :rel").replace(
            ":process 0, :type :ok, :f :rel", ":process 7, :type :ok, :f :rel"
        )
    )
    assert exit_status_of("check", path, "--model", model) == 0


def test_json_output_is_the_document_of_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.edn"
    bad.write_text(BAD)
    assert exit_status_of("check", bad, "--model", "mutex", "--json") == 1
    out = capsys.readouterr().out
    document = msgspec.json.decode(out, type=CheckDocument)
    assert (document.schema, document.valid, document.algorithm) == (1, False, "quick")
    assert [call.indices for call in document.evidence[0].involved] == [(0, 1), (2, 3)]
    assert set(json.loads(out)["seconds"]) == {"reading", "checking"}


def test_a_user_model_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "counter_model.py").write_text(MODEL)
    adds = tmp_path / "adds.edn"
    adds.write_text(
        "{:process 0, :type :invoke, :f :add, :value 2}\n{:process 0, :type :ok, :f :add, :value 2}\n"
        "{:process 1, :type :invoke, :f :add, :value 3}\n{:process 1, :type :ok, :f :add, :value 5}\n"
    )
    assert exit_status_of("check", adds, "--model", "counter_model:Counter") == 0
    assert exit_status_of("check", adds, "--model", "counter_model:Counter", "--model-option", "start=1") == 1
    assert "the sum is 3" in " ".join(capsys.readouterr().out.split())
    for wrong, said in (
        ("counter_model:Nothing", "it has no 'initial'"),
        ("counter_model:Absent", "has no class called 'Absent'"),
        ("no_such_module:Model", "no_such_module"),
    ):
        assert exit_status_of("check", adds, "--model", wrong) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("good.edn", "--model", "mutx"), "did you mean mutex"),
        (("good.edn", "--model", "semaphore"), "needs --model-option permits=..."),
        (
            ("good.edn", "--model", "semaphore", "--model-option", "permits=0"),
            "permits must be a whole number and at least 1",
        ),
        (("good.edn", "--model", "semaphore", "--model-option", "permits=2.5"), "permits must be a whole number"),
        (("good.edn", "--model", "semaphore", "--model-option", "permit=1"), "did you mean permits"),
        (("good.edn", "--model", "mutex", "--model-option", "x=1"), "has no options"),
        (("good.edn", "--model", "mutex", "--key", "k7"), "unknown key 'k7'"),
        (("good.edn", "--model", "mutex", "--keyed", "maybe"), "keyed must be auto, yes or no"),
        (("good.edn", "--model", "mutex", "--budget", "soon"), "budget"),
        (("good.edn", "--model", "mutex", "--memory", "much"), "expected a size such as 512M"),
        (("absent.edn", "--model", "mutex"), "absent.edn"),
        (("good.txt", "--model", "mutex"), ".jsonl, .edn"),
        (("cas.edn", "--model", "register"), "does not define what cas does"),
        (("torn.edn", "--model", "mutex"), "torn.edn, line 2"),
    ],
)
def test_bad_input_is_reported_in_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.edn").write_text(GOOD)
    (tmp_path / "good.txt").write_text(GOOD)
    (tmp_path / "cas.edn").write_text(GOOD.replace(":acquire", ":cas"))
    (tmp_path / "torn.edn").write_text(GOOD.replace(":ok", ":fine", 1))
    assert exit_status_of("check", tmp_path / arguments[0], *arguments[1:]) == 2
    err = capsys.readouterr().err.strip()
    assert said in err
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1


def test_empty_and_truncated_histories_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.edn"
    empty.write_text("")
    assert exit_status_of("check", empty, "--model", "mutex") == 3
    cut = tmp_path / "cut.jsonl"
    ops = [Op(0, 1, 1, 0, "invoke", "acquire", "k0"), Op(1, 2, 2, 0, "ok", "acquire", "k0")]
    History(ops).save(cut)
    whole = cut.read_text()
    cut.write_text(whole + whole[:40])
    assert exit_status_of("check", cut, "--model", "mutex") == 3
    assert "the file is truncated in its last line" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_stored_run_and_its_export_get_the_same_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two clients hold the lock after a pause. This violates a mutex, but not a lease."""
    pause = FaultSpec("client-pause", on="acquire", client=0, for_=3.0)
    plan = Plan(lock="redis-token", time_limit=8.0, ttl=1.0, hold=0.5, clients=3, faults=(pause,))
    folder = run(plan, store=tmp_path).folder
    assert folder is not None
    assert exit_status_of("check", folder, "--model", "owner-mutex") == 1
    assert "Cause: client." in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert exit_status_of("check", folder, "--model", "lease-mutex") == 0
    assert exit_status_of("export", folder, tmp_path / "out.edn") == 0
    assert exit_status_of("check", tmp_path / "out.edn", "--model", "owner-mutex") == 1
    assert exit_status_of("check", tmp_path / "out.edn", "--model", "lease-mutex") == 0
    assert exit_status_of("export", folder, tmp_path / "out.txt") == 2
    capsys.readouterr()


def test_the_truncated_last_line_of_a_history_is_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acquire = Op(0, time=0, wall=0, process=0, type="invoke", f="acquire", key="k", node="c0")
    path = tmp_path / "history.jsonl"
    History([acquire]).save(path)
    path.write_bytes(path.read_bytes() + b'{"index":1,"ti')
    assert exit_status_of("export", path, tmp_path / "out.edn") == 0
    said = capsys.readouterr()
    assert said.out == f"1 entry written to {tmp_path / 'out.edn'}\n"
    assert "the last line was left out" in said.err
    assert "line 2" in said.err


def test_a_jepsen_store_folder_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "history.edn").write_text(BAD)
    assert exit_status_of("check", tmp_path, "--model", "mutex") == 1
    (tmp_path / "empty").mkdir()
    assert exit_status_of("check", tmp_path / "empty", "--model", "mutex") == 2
    assert "history.jsonl" in capsys.readouterr().err
