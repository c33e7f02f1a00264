"""Descriptions of cancelled calls."""

from __future__ import annotations

from typing import Any

from harness.faults.cancel import TaskCancel
from harness.faults.records import FaultRecord, Moment


def record(**calls: dict[str, Any]) -> FaultRecord:
    return FaultRecord(0, TaskCancel.name, tuple(calls), {}, 1_000_000, None, True, {"calls": calls}, None)


RELEASE = {"method": "release", "at_ns": 1_001_000_000, "sent": "DEL"}
ACQUIRE = {"method": "acquire", "at_ns": 2_000_000_000, "sent": ""}


def test_a_story_names_the_call_and_the_last_command_that_it_had_sent() -> None:
    assert TaskCancel.story(record(c0=RELEASE), "") == "c0's release is cancelled after its DEL was sent"
    both = TaskCancel.story(record(c1=ACQUIRE, c0=RELEASE), "")
    assert both == "c0's release is cancelled after its DEL was sent and c1's acquire is cancelled"


def test_its_time_is_when_the_call_received_it_and_not_when_the_fault_struck() -> None:
    assert TaskCancel.effect_ns(record(c1=ACQUIRE, c0=RELEASE)) == RELEASE["at_ns"]
    cause = TaskCancel.cause(record(c0=RELEASE), Moment(3_000_000_000, 0))
    assert cause == "c0's release was cancelled at 1.001 s after its DEL was sent"


def test_a_record_of_an_earlier_version_has_the_general_words() -> None:
    old = FaultRecord(0, TaskCancel.name, ("c0",), {}, 1, None, True, {"cancelled": {"c0": "release"}}, None)
    assert not TaskCancel.describes(old)
