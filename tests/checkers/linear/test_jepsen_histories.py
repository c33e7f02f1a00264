"""Histories in the formats of Jepsen and Knossos, with verdicts worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import check


def call_alone(process: int, f: str, value: str = "nil", returned: str | None = None, end: str = "ok") -> str:
    """A call that no other entry interrupts."""
    return begin(process, f, value) + done(process, f, value if returned is None else returned, end)


def begin(process: int, f: str, value: str = "nil") -> str:
    return f"{{:process {process}, :type :invoke, :f :{f}, :value {value}}}\n"


def done(process: int, f: str, value: str = "nil", how: str = "ok") -> str:
    return f"{{:process {process}, :type :{how}, :f :{f}, :value {value}}}\n"


NEMESIS = """{:process :nemesis, :type :info, :f :start, :value nil, :time 5}
{:process :nemesis, :type :info, :f :start, :value "Cut off #{n1 n2} from {:n3 1}", :time 6}
"""

REGISTERS = {
    "read what was written": (call_alone(0, "write", "1") + call_alone(1, "read", "nil", "1"), True),
    "nil before anything was written": (call_alone(1, "read", "nil", "nil") + call_alone(0, "write", "1"), True),
    "nil after something was written": (call_alone(0, "write", "1") + call_alone(1, "read", "nil", "nil"), False),
    "a stale read": (
        call_alone(0, "write", "1") + call_alone(0, "write", "2") + call_alone(1, "read", "nil", "1"),
        False,
    ),
    "a read of what nobody wrote": (call_alone(0, "write", "1") + call_alone(1, "read", "nil", "7"), False),
    "a read while it is written may be old": (
        call_alone(0, "write", "1")
        + begin(0, "write", "2")
        + call_alone(1, "read", "nil", "1")
        + done(0, "write", "2"),
        True,
    ),
    "or new": (
        call_alone(0, "write", "1")
        + begin(0, "write", "2")
        + call_alone(1, "read", "nil", "2")
        + done(0, "write", "2"),
        True,
    ),
    "but not old after new": (
        call_alone(0, "write", "1")
        + begin(0, "write", "2")
        + call_alone(1, "read", "nil", "2")
        + call_alone(2, "read", "nil", "1")
        + done(0, "write", "2"),
        False,
    ),
    "an unknown write is seen much later": (
        begin(0, "write", "2")
        + done(0, "write", "2", "info")
        + call_alone(1, "write", "1")
        + call_alone(2, "read", "nil", "2"),
        True,
    ),
    "but only once": (
        begin(0, "write", "2")
        + done(0, "write", "2", "info")
        + call_alone(1, "write", "1")
        + call_alone(2, "read", "nil", "2")
        + call_alone(1, "write", "1")
        + call_alone(2, "read", "nil", "2"),
        False,
    ),
    "a failed write is not seen": (call_alone(0, "write", "2", end="fail") + call_alone(1, "read", "nil", "2"), False),
    "a write that never returned": (begin(0, "write", "2") + call_alone(1, "read", "nil", "2"), True),
    "a read of unknown outcome says nothing": (
        call_alone(0, "write", "1")
        + begin(1, "read")
        + done(1, "read", "nil", "info")
        + call_alone(2, "read", "nil", "1"),
        True,
    ),
    "the nemesis is no client": (call_alone(0, "write", "1") + NEMESIS + call_alone(1, "read", "nil", "1"), True),
    "strings, keywords, vectors": (
        call_alone(0, "write", '"a b; {c}"')
        + call_alone(1, "read", "nil", '"a b; {c}"')
        + call_alone(0, "write", ":x")
        + call_alone(1, "read", "nil", ":x")
        + call_alone(0, "write", "[1 [2 nil]]")
        + call_alone(1, "read", "nil", "[1 [2 nil]]"),
        True,
    ),
    "two concurrent writes, seen in both orders": (
        begin(0, "write", "1")
        + begin(1, "write", "2")
        + call_alone(2, "read", "nil", "1")
        + call_alone(3, "read", "nil", "2")
        + call_alone(2, "read", "nil", "1")
        + done(0, "write", "1")
        + done(1, "write", "2"),
        False,
    ),
}

CAS = {
    "a cas that succeeds": (
        call_alone(0, "write", "1") + call_alone(1, "cas", "[1 3]") + call_alone(2, "read", "nil", "3"),
        True,
    ),
    "a cas from what it is not": (call_alone(0, "write", "1") + call_alone(1, "cas", "[2 3]"), False),
    "one that failed did not happen": (
        call_alone(0, "write", "1") + call_alone(1, "cas", "[2 3]", end="fail") + call_alone(2, "read", "nil", "1"),
        True,
    ),
    "two from the same value": (
        call_alone(0, "write", "1") + call_alone(1, "cas", "[1 2]") + call_alone(2, "cas", "[1 3]"),
        False,
    ),
    "two from the same value, put back between": (
        call_alone(0, "write", "1")
        + call_alone(1, "cas", "[1 2]")
        + call_alone(0, "write", "1")
        + call_alone(2, "cas", "[1 3]"),
        True,
    ),
    "an unknown cas explains the next": (
        call_alone(0, "write", "1")
        + begin(1, "cas", "[1 2]")
        + done(1, "cas", "[1 2]", "info")
        + call_alone(2, "cas", "[2 4]")
        + call_alone(3, "read", "nil", "4"),
        True,
    ),
    "an unknown cas does not explain two": (
        call_alone(0, "write", "1")
        + begin(1, "cas", "[1 2]")
        + done(1, "cas", "[1 2]", "info")
        + call_alone(2, "cas", "[2 4]")
        + call_alone(0, "write", "1")
        + call_alone(2, "cas", "[2 4]"),
        False,
    ),
    "one big vector": (
        "[" + call_alone(0, "write", "1") + call_alone(1, "cas", "[1 3]") + call_alone(2, "read", "nil", "1") + "]",
        False,
    ),
    "from nil": (call_alone(1, "cas", "[nil 3]") + call_alone(2, "read", "nil", "3"), True),
}

MUTEXES = {
    "one after the other": (
        call_alone(0, "acquire") + call_alone(0, "release") + call_alone(1, "acquire") + call_alone(1, "release"),
        True,
    ),
    "two at once": (call_alone(0, "acquire") + call_alone(1, "acquire"), False),
    "waits for the release": (
        call_alone(0, "acquire") + begin(1, "acquire") + call_alone(0, "release") + done(1, "acquire"),
        True,
    ),
    "returns before the release is asked for": (
        call_alone(0, "acquire") + begin(1, "acquire") + done(1, "acquire") + call_alone(0, "release"),
        False,
    ),
    "a release of what is free": (call_alone(0, "release"), False),
    "a try that failed": (
        call_alone(0, "acquire") + call_alone(1, "acquire", end="fail") + call_alone(0, "release"),
        True,
    ),
    "an unknown release frees it": (
        call_alone(0, "acquire") + begin(0, "release") + done(0, "release", how="info") + call_alone(1, "acquire"),
        True,
    ),
    "but one only": (
        call_alone(0, "acquire")
        + begin(0, "release")
        + done(0, "release", how="info")
        + call_alone(1, "acquire")
        + call_alone(2, "acquire"),
        False,
    ),
    "an unknown acquire may hold for ever or never": (
        begin(0, "acquire") + done(0, "acquire", how="info") + call_alone(1, "acquire") + call_alone(1, "release"),
        True,
    ),
    "somebody else releases it": (call_alone(0, "acquire") + call_alone(1, "release") + call_alone(1, "acquire"), True),
    "records": (
        "#jepsen.history.Op{:index 0, :time 1, :type :invoke, :process 0, :f :acquire, :value nil}\n"
        "#jepsen.history.Op{:index 1, :time 2, :type :ok, :process 0, :f :acquire, :value nil}\n"
        '#jepsen.history.Op{:index 2, :time 3, :type :info, :process :nemesis, :f :kill, :value {"n1" :killed}}\n'
        "#jepsen.history.Op{:index 3, :time 4, :type :invoke, :process 1, :f :acquire, :value nil}\n"
        '#jepsen.history.Op{:index 4, :time 5, :type :ok, :process 1, :f :acquire, :value nil, :error [:x "y"]}\n',
        False,
    ),
}
CASES = [
    pytest.param(model, text, valid, id=f"{model}: {name}")
    for model, stories in (("register", REGISTERS), ("cas-register", {**REGISTERS, **CAS}), ("mutex", MUTEXES))
    for name, (text, valid) in stories.items()
]


@pytest.mark.parametrize(("model", "text", "valid"), CASES)
def test_verdict_of_each_history_is_the_one_worked_out_by_hand(
    model: str, text: str, valid: bool, tmp_path: Path
) -> None:
    file = tmp_path / "history.edn"
    file.write_text(text)
    report = check(file, model)
    assert report.verdict.valid is valid, report.verdict.explanation
    if not valid:
        assert report.verdict.evidence[0].involved
        assert "entry" in report.verdict.explanation


def test_an_owner_mutex_forbids_what_a_mutex_allows(tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    file.write_text(MUTEXES["somebody else releases it"][0])
    assert check(file, "owner-mutex").verdict.valid is False


def test_keys_of_jepsen_independent_are_separate_registers(tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    text = call_alone(0, "write", "[1 5]") + call_alone(1, "write", "[2 6]") + call_alone(2, "read", "[1 nil]", "[1 5]")
    file.write_text(text + call_alone(3, "read", "[2 nil]", "[2 6]"))
    assert check(file, "register").verdict.valid is True
    file.write_text(text + call_alone(3, "read", "[2 nil]", "[2 5]"))
    report = check(file, "register")
    assert report.verdict.valid is False
    assert report.verdict.evidence[0].key == "2"


def test_the_initial_value_can_be_given(tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    file.write_text(call_alone(0, "read", "nil", "0"))
    assert check(file, "register").verdict.valid is False
    assert check(file, "register", options={"initial": 0}).verdict.valid is True


def test_nil_reads_may_be_allowed_to_match_any_value_as_in_knossos(tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    file.write_text(REGISTERS["nil after something was written"][0])
    assert check(file, "register", options={"nil_reads": "any"}).verdict.valid is True
