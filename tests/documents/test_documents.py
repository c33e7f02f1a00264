"""Documents stored today load into structs and lose nothing, and the published schemas are those of the structs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import documents
from harness.documents import schemas
from harness.documents.heads import ComparisonHead, HuntHead, ReleasesHead, RunHead, SweepHead

SAMPLES = Path(__file__).parent / "samples"
LOADERS: dict[str, Callable[[Path], msgspec.Struct]] = {
    "results-valid": documents.load_run,
    "results-violation": documents.load_run,
    "results-scenario": documents.load_run,
    "results-hunt": documents.load_run,
    "hunt-found": documents.load_hunt,
    "hunt-nothing": documents.load_hunt,
    "nightly": documents.load_nightly,
    "comparison": documents.load_comparison,
    "sweep": documents.load_sweep,
    "trends": documents.load_trends,
}
"""By the name of a sample, which a command of the first published harness wrote."""


@pytest.mark.parametrize("name", LOADERS)
def test_a_stored_document_loads_and_is_written_with_the_same_content(name: str) -> None:
    path = SAMPLES / f"{name}.json"
    document = LOADERS[name](path)
    stored = json.loads(path.read_bytes())
    loaded = documents.plain(document)
    assert is_part(stored, loaded)
    assert [key for key in loaded if key in stored] == list(stored)


def test_a_written_document_has_an_entry_a_line_and_loads_again(tmp_path: Path) -> None:
    document = documents.load_sweep(SAMPLES / "sweep.json")
    (tmp_path / "sweep.json").write_bytes(documents.indented(document))
    assert (tmp_path / "sweep.json").read_text().startswith('{\n "schema": 1,\n "lock": "redis-token",\n')
    assert documents.load_sweep(tmp_path / "sweep.json") == document


def test_every_sample_is_loaded() -> None:
    assert {path.stem for path in SAMPLES.iterdir()} == set(LOADERS)


def test_fields_have_their_types() -> None:
    run = documents.load_run(SAMPLES / "results-hunt.json")
    assert run.checkers["mutual-exclusion"].evidence[0].involved[0].f == "hold"
    assert run.faults[0].seen is True
    assert isinstance(run.story, documents.story.Story)
    assert run.story.steps[0].at == 0.0
    hunt = documents.load_hunt(SAMPLES / "hunt-found.json")
    assert hunt.findings[0].plan is not None
    assert hunt.findings[0].plan.lock == hunt.lock == "redlock"
    sweep = documents.load_sweep(SAMPLES / "sweep.json")
    assert [(point.ttl, point.pause) for point in sweep.points] == [(1.0, 0.0), (2.0, 0.0), (1.0, 3.0), (2.0, 3.0)]
    comparison = documents.load_comparison(SAMPLES / "comparison.json")
    assert comparison.locks[0].cells["client-pause"].state == "unsafe"
    assert documents.load_nightly(SAMPLES / "nightly.json").started_at.utcoffset() is not None


@pytest.mark.parametrize("name", LOADERS)
def test_keys_of_a_later_version_are_ignored(name: str, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    stored = json.loads((SAMPLES / f"{name}.json").read_bytes())
    path.write_text(json.dumps(stored | {"colour": "red"}))
    assert is_part(stored, documents.plain(LOADERS[name](path)))


def test_a_run_of_schema_1_gets_the_states_that_follow_from_it() -> None:
    run = documents.load_run(SAMPLES / "results-violation.json")
    states = {name: checker.state for name, checker in run.checkers.items()}
    assert (states["mutual-exclusion"], states["liveness"], states["fencing"]) == ("broken", "kept", "not-applicable")
    assert run.summary.startswith(run.reason)
    assert run.reason.endswith(".")


# The published schemas.


def test_the_published_schemas_are_those_of_the_structs() -> None:
    """If this fails, run: python -m harness.documents.schemas"""
    published = {path.name: path.read_bytes() for path in schemas.FOLDER.iterdir()}
    assert published == schemas.files()


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_every_field_of_a_document_says_what_it_means(name: str) -> None:
    for struct in schemas.structs_of(schemas.DOCUMENTS[name]):
        if struct.__module__.startswith("harness.documents"):
            assert struct.__doc__, struct
            assert list(schemas.field_docs(struct)) == list(struct.__struct_encode_fields__), struct


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_every_duration_says_its_unit(name: str) -> None:
    words = {"_s": "seconds", "_ns": "ns", "seconds": "seconds", "ttl": "seconds", "hold": "seconds"}
    for struct in schemas.structs_of(schemas.DOCUMENTS[name]):
        for field, text in schemas.field_docs(struct).items():
            for suffix, unit in words.items():
                if struct.__module__.startswith("harness.documents") and field.endswith(suffix) and field != "holds":
                    assert unit in text or "history's" in text, f"{struct.__name__}.{field}: {text}"


def test_a_schema_names_what_is_required() -> None:
    schema: dict[str, Any] = schemas.schema_of(documents.RunDocument)
    run = schema["$defs"]["RunDocument"]
    assert run["required"] == ["schema", "valid"]
    assert run["properties"]["schema"]["enum"] == [1, 2]
    assert "ns" in schema["$defs"]["InjectedFault"]["properties"]["healed_ns"]["description"]


# Heads.


def is_part(head: Any, whole: Any) -> bool:
    """Is everything that the head says in the whole document?"""
    if isinstance(head, dict) and isinstance(whole, dict):
        return all(is_part(value, whole[key]) for key, value in head.items() if key in whole)
    if isinstance(head, list) and isinstance(whole, list):
        return len(head) == len(whole) and all(map(is_part, head, whole))
    return bool(head == whole)


HEADS: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "results": (RunHead, documents.RunDocument),
    "hunt": (HuntHead, documents.HuntDocument),
    "bisect": (ReleasesHead, documents.BisectDocument),
    "versions": (ReleasesHead, documents.VersionsDocument),
    "comparison": (ComparisonHead, documents.ComparisonDocument),
    "sweep": (SweepHead, documents.SweepDocument),
}


@pytest.mark.parametrize("name", [name for name in LOADERS if name.partition("-")[0] in HEADS])
def test_the_head_of_a_document_says_what_the_document_says(name: str) -> None:
    kind, whole = HEADS[name.partition("-")[0]]
    data = (SAMPLES / f"{name}.json").read_bytes()
    head = documents.plain(msgspec.json.decode(data, type=kind))
    assert set(head) <= set(whole.__struct_encode_fields__)
    assert is_part(head, json.loads(data))


@pytest.mark.parametrize("name", HEADS)
def test_the_keys_of_a_head_are_those_of_the_document(name: str) -> None:
    head, whole = HEADS[name]
    assert set(head.__struct_encode_fields__) <= set(whole.__struct_encode_fields__)
