"""A malformed document is one bounded error that names the file, the place and what was expected there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness import documents
from harness.documents import DocumentError, load_comparison, load_hunt, load_nightly, load_run, load_sweep
from harness.documents.reading import LONGEST_MESSAGE
from harness.errors import USAGE, UsageError

SAMPLES = Path(__file__).parent / "samples"
RUN = {"schema": 1, "valid": None}


def error_of(path: Path, load: Any) -> str:
    with pytest.raises(DocumentError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert len(said) <= LONGEST_MESSAGE
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_status == USAGE
    return said.removeprefix(str(path))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ", line 1, column 1: expected a JSON object: Expecting value; is the file truncated?"),
        ('{"schema": 1,\n "valid": t', ", line 2, column 11: expected a JSON object"),
        ("[]", ": expected a JSON object, got []"),
        ("3", ": expected a JSON object, got 3"),
        ('{"valid": true}', ": expected the key 'schema', got only valid"),
        ("{}", ": expected the key 'schema', got nothing"),
        ('{"schema": 3, "valid": true}', ": schema: expected 1 or 2, got 3: another version of the harness wrote it"),
        ('{"schema": true, "valid": true}', ": schema: expected 1 or 2, got true"),
        ('{"schema": 1, "vaild": true}', ": expected the key 'valid', got 'vaild'"),
        ('{"schema": 1, "valid": 3}', ": valid: expected true, false or null, got 3"),
        ('{"schema": 1, "valid": "yes"}', ': valid: expected true, false or null, got "yes"'),
    ],
)
def test_the_whole_document_is_wrong(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    assert error_of(path, load_run).startswith(expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"faults": [7]}, ": faults[0]: expected an object, got 7"),
        ({"faults": [{}, {"injected_ns": "x"}]}, ': faults[1].injected_ns: expected a whole number or null, got "x"'),
        ({"faults": [{"injected_ns": 1.5}]}, ": faults[0].injected_ns: expected a whole number or null, got 1.5"),
        ({"faults": 3}, ": faults: expected a list, got 3"),
        ({"checkers": {"liveness": {"valid": 1}}}, ": checkers.liveness.valid: expected true, false or null, got 1"),
        ({"checkers": {"a": {}, "b": {"evidence": [{"kind": 1}]}}}, ": checkers.b.evidence[0].kind: expected a string"),
        ({"checkers": {"a": {"evidence": [{"blame": "clok"}]}}},
         '.blame: expected one of client, clock, service, got "clok" (did you mean clock?)'),
        ({"scenario": {"state": "violatd"}}, ': scenario.state: expected one of as-expected, error, late, missed, '
         'not-run, other-cause, unknown, violated, got "violatd" (did you mean violated?)'),
        ({"scenario": {"expect": {"safe": True, "ignores": []}}}, "unknown key 'ignores': did you mean 'ignored'?"),
        ({"plan": {"ttl": "2s"}}, ': plan.ttl: expected a number, got "2s"'),
        ({"plan": {"faults": [{}]}}, ": plan.faults[0]: expected the key 'fault', got nothing"),
        ({"summary": None}, ": summary: expected a string, got null"),
        ({"story": {"steps": [{"drop": {"after": "x"}}]}}, ": story.steps[0].drop.after: expected "),
    ],
)  # fmt: skip
def test_a_field_is_wrong(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(RUN | changes))
    assert expected in error_of(path, load_run)


def with_(name: str, where: tuple[str | int, ...], value: Any) -> str:
    document = json.loads((SAMPLES / f"{name}.json").read_bytes())
    place = document
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("load", "content", "expected"),
    [
        (load_hunt, with_("hunt-found", ("moments",), [["kill"]]), ": moments[0]: expected a list of 2, got one"),
        (load_hunt, with_("hunt-found", ("findings", 0, "plan", "lcok"), "x"), "findings[0].plan: unknown key 'lc"),
        (load_hunt, with_("hunt-found", ("errors",), {"a": "often"}), ": errors.a: expected a whole number"),
        (load_nightly, with_("nightly", ("started_at",), "at two"), ": started_at: expected a time such as 2026"),
        (load_nightly, with_("nightly", ("outcomes", 1, "found_s"), "soon"), ": outcomes[1].found_s: expected a num"),
        (load_nightly, with_("nightly", ("outcomes", 0), {}), ": outcomes[0]: expected the key 'scenario'"),
        (load_comparison, with_("comparison", ("locks", 0, "cells", "failover", "state"), "fine"),
         ": locks[0].cells.failover.state: expected one of "),
        (load_sweep, with_("sweep", ("points", 0, "rate"), []), ": points[0].rate: expected a number or null"),
    ],
)  # fmt: skip
def test_a_field_of_another_document_is_wrong(tmp_path: Path, load: Any, content: str, expected: str) -> None:
    path = tmp_path / "document.json"
    path.write_text(content)
    assert expected in error_of(path, load)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe{}",
        b'{"schema": 1, "valid": null, "summary": "\\ud800"}',
        b'{"schema": 1, "valid": null, "x": ' + b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"schema": 1, "valid": null, "plan": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
        b'{"schema": 1, "valid": "' + b"x" * 1_000_000 + b'"}',
        b'{"schema": 1, "valid": [' + b"1," * 100_000 + b"1]}",
        b'{"schema": 1, "valid": null, "checkers": {"' + b"k" * 1_000_000 + b'": 1}}',
    ],
)
def test_hostile_content_is_one_bounded_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    assert error_of(path, load_run)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    assert error_of(tmp_path / "results.json", load_run) == ": cannot read it: No such file or directory"


def test_a_folder_and_a_pipe_are_no_documents(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert error_of(tmp_path, load_run) == ": cannot read it: it is not a file"
    assert error_of(tmp_path / "pipe", load_run) == ": cannot read it: it is not a file"


def test_a_document_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.documents.reading.LARGEST", 10)
    path = tmp_path / "results.json"
    path.write_text(json.dumps(RUN))
    assert error_of(path, load_run) == ": expected at most 10 bytes, got 28"


def test_plain_data_is_checked_like_a_file() -> None:
    with pytest.raises(DocumentError, match=r"the document: locks\[0\]: expected the key 'name', got 'nme'"):
        documents.convert(
            {"schema": 1, "nemeses": [], "locks": [{"nme": 1}]}, documents.ComparisonDocument, "the document"
        )
