"""EDN values in models: registers distinguish unequal values, and explanations show the difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checkers.models import frozen, worded
from harness.history.edn import only_form
from harness.run.check.checking import check

EQUAL = [("#{1 2}", "#{2 1}"), ("{:a 1, :b 2}", "{:b 2, :a 1}"), (":a", ":a"), ("[1]", "(1)"), ("2/2", "1")]
UNLIKE = [
    ("1", "1.0"),
    ("1", "true"),
    ("0", "false"),
    ("0.5", "1/2"),
    ("1M", "1"),
    ("[{:a 1}]", "[{:a true}]"),
    ("#{}", "{}"),
    ("#{#{}}", "#{{}}"),
    (":a", '"a"'),
    ("{:a 1}", '#{["a" 1]}'),
    ("[]", "#{}"),
    ("[[]]", "[{}]"),
]


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
def test_registers_distinguish_unequal_values(tmp_path: Path, wrote: str, read: str) -> None:
    path = tmp_path / "h.edn"
    path.write_text(written_and_read(wrote, read))
    assert check(path, "register").verdict.valid == ((wrote, read) in EQUAL)


@pytest.mark.parametrize("text", ["#{{:a 1} #{}}", "{:a {:b #{1}}}", ":a", "[nil true]"])
def test_frozen_states_are_shown_like_their_values(text: str) -> None:
    value = only_form(text)
    assert frozen(frozen(value)) == frozen(value)
    assert worded(frozen(value)) == worded(value)
    assert "set(" not in worded(frozen(value))


@pytest.mark.parametrize(("mode", "valid"), [(":read", True), ('"read"', True), ("{:mode :read}", True), (":w", False)])
def test_lock_modes_are_names(tmp_path: Path, mode: str, valid: bool) -> None:
    path = tmp_path / "h.edn"
    path.write_text(
        "".join(
            f"{{:process {process}, :type :{kind}, :f :acquire, :value {mode}}}\n"
            for process in (0, 1)
            for kind in ("invoke", "ok")
        )
    )
    assert check(path, "rw-lock").verdict.valid is valid
