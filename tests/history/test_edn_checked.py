"""Values of EDN as models see them: what differs there differs in registers, and what is shown tells them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.models import frozen, worded
from harness.checking import check
from harness.history.edn import one

EQUAL = [("#{1 2}", "#{2 1}"), ("{:a 1, :b 2}", "{:b 2, :a 1}"), (":a", ":a"), ("[1]", "(1)"), ("1", "1.0")]
UNLIKE = [("#{}", "{}"), ("#{#{}}", "#{{}}"), (":a", '"a"'), ("{:a 1}", '#{["a" 1]}'), ("[]", "#{}"), ("[[]]", "[{}]")]


def written_and_read(wrote: str, read: str) -> str:
    return "".join(
        f"{{:process 0, :type :{kind}, :f :{f}, :value {value}}}\n"
        for kind, f, value in (
            ("invoke", "write", wrote),
            ("ok", "write", wrote),
            ("invoke", "read", "nil"),
            ("ok", "read", read),
        )
    )


@pytest.mark.parametrize(("wrote", "read"), EQUAL + UNLIKE)
def test_registers_tell_values_apart(tmp_path: Path, wrote: str, read: str) -> None:
    path = tmp_path / "h.edn"
    path.write_text(written_and_read(wrote, read))
    assert check(path, "register").verdict.valid == ((wrote, read) in EQUAL)


@pytest.mark.parametrize("text", ["#{{:a 1} #{}}", "{:a {:b #{1}}}", ":a", "[nil true]"])
def test_states_are_shown_as_values_are(text: str) -> None:
    value = one(text)
    assert frozen(frozen(value)) == frozen(value)
    assert worded(frozen(value)) == worded(value)
    assert "set(" not in worded(frozen(value))


@pytest.mark.parametrize(("mode", "valid"), [(":read", True), ('"read"', True), ("{:mode :read}", True), (":w", False)])
def test_modes_of_locks_are_words(tmp_path: Path, mode: str, valid: bool) -> None:
    path = tmp_path / "h.edn"
    path.write_text(
        "".join(
            f"{{:process {process}, :type :{kind}, :f :acquire, :value {mode}}}\n"
            for process in (0, 1)
            for kind in ("invoke", "ok")
        )
    )
    assert check(path, "rw-lock").verdict.valid is valid
