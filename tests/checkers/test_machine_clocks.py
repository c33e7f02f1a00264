"""Violations between clients of several machines count only if they hold for every admissible clock."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.catalogue import chosen
from harness.checkers.machine_clocks import machines_of
from harness.checkers.running import run_all
from harness.history import History, Op
from harness.history.lock_keys import KeyState, attach_keys
from harness.run.check.checking import check

MS = 1_000_000
SECOND = 1000 * MS


class Script:
    """A history of two clients that take a lock in turn, in ms."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, Any, str, Any, str | None]] = []

    def call(
        self, client: int, f: str, begun_ms: float, done_ms: float, value: Any = None, *, kind: str = "ok"
    ) -> None:
        node = f"c{client}"
        self.entries.append(
            (int(begun_ms * MS), client, "invoke", f, {"timeout": 2.0} if f == "acquire" else None, node)
        )
        self.entries.append((int(done_ms * MS), client, kind, f, value, node))

    def hold(self, client: int, from_ms: float, until_ms: float) -> None:
        self.call(client, "acquire", from_ms - 5, from_ms, {"fence": None, "valid_for": 2.0})
        self.call(client, "release", until_ms, until_ms + 1)

    def history(self, clocks: list[dict[str, Any]], *, stopped: bool = True) -> History:
        start = {"clients": ["c0", "c1"], "servers": ["n1"], "ttl": 2.0, "hold": 0.1, "discipline": "trusting"}
        stated = {"machine_clocks": clocks} if clocks else {}
        entries: list[Any] = [
            (0, -1, "info", "start", {**start, **stated}, None),
            *sorted(self.entries, key=lambda one: one[0]),
        ]
        if stopped:
            entries.append((entries[-1][0] + MS, -1, "info", "stop", {"reason": "time limit", **stated}, None))
        return History(
            Op(
                index,
                time=time,
                wall=time,
                process=process,
                type=type_,
                f=f,
                key=None if process < 0 else "k0",
                value=value,
                node=node,
            )
            for index, (time, process, type_, f, value, node) in enumerate(entries)
        )


def clocks(error_ms: float, *, together: bool = False) -> list[dict[str, Any]]:
    groups = [["c0", "c1"]] if together else [["c0"], ["c1"]]
    return [{"machine": f"h{i}", "clients": group, "error_ns": int(error_ms * MS)} for i, group in enumerate(groups)]


def overlap_of(overlap_ms: float) -> Script:
    """Return a script in which c1 holds the lock before c0 has released it, and several turns without an overlap."""
    script = Script()
    for turn in range(6):
        script.hold(turn % 2, 100 + 200 * turn, 200 + 200 * turn)
    script.hold(0, 1400, 1500 + overlap_ms)
    script.hold(1, 1500, 1600)
    return script


def verdict(history: History) -> Any:
    return run_all(history, chosen(()))["mutual-exclusion"]


def test_an_overlap_longer_than_the_errors_of_both_clocks_is_a_violation() -> None:
    found = verdict(overlap_of(10).history(clocks(4.9)))
    assert found.valid is False
    assert found == verdict(overlap_of(10).history([]))


def test_an_overlap_that_the_errors_of_the_clocks_may_explain_is_unknown() -> None:
    found = verdict(overlap_of(10).history(clocks(5.1)))
    assert found.valid is None
    assert "as the clocks read: " in found.explanation
    assert "the clocks of the machines are known to within 0.005" in found.explanation


def test_clients_of_one_machine_are_compared_exactly() -> None:
    assert verdict(overlap_of(10).history(clocks(50, together=True))).valid is False


def test_a_violation_counts_beside_one_that_the_clocks_may_explain() -> None:
    script = overlap_of(10)
    script.hold(0, 2000, 2300)
    script.hold(1, 2100, 2200)
    found = verdict(script.history(clocks(6)))
    assert found.valid is False
    assert len(found.evidence) == 1
    assert "of 2 violations as the clocks read, 1 hold for every clock within its error" in found.explanation
    assert found.evidence[0].from_ns == 2100 * MS


@pytest.mark.parametrize(("error_ms", "valid"), [(1, False), (600, None)])
def test_the_recorded_keys_of_servers_count_for_every_admissible_clock(error_ms: float, valid: bool | None) -> None:
    """The key of a failed acquire stays for 1.5 s, and the slack is 1 s."""
    script = Script()
    for turn in range(6):
        script.hold(turn % 2, 100 + 200 * turn, 200 + 200 * turn)
    script.call(0, "acquire", 1995, 2500, kind="fail")
    script.call(0, "acquire", 6000, 6005, kind="fail")
    history = script.history(clocks(error_ms))
    attach_keys(history, [KeyState(2200 * MS, "n1", "k0", "token", by="c0"), KeyState(4000 * MS, "n1", "k0", by="c0")])
    found = run_all(history, chosen(["keys"]))["keys"]
    assert found.valid is valid
    assert "c0 kept k0 for 1.500 s after its acquire had failed" in found.explanation


def test_a_run_without_an_end_counts_what_clocks_may_have_drifted() -> None:
    script = Script()
    script.hold(0, 1000, 11_000)
    (machine, _) = machines_of(script.history(clocks(1), stopped=False))
    assert machine.error_ns == MS + 11_001 * MS // 1000
    (machine, _) = machines_of(script.history(clocks(1)))
    assert machine.error_ns == MS


def test_many_machines_are_tried_one_against_all_others() -> None:
    """128 combinations of 7 machines are too many to try all of them."""
    many = [{"machine": f"h{i}", "clients": [f"c{i}"], "error_ns": 6 * MS} for i in range(7)]
    assert verdict(overlap_of(10).history(many)).valid is None
    assert verdict(overlap_of(13).history(many)).valid is False


def test_a_check_against_a_model_widens_calls_by_the_errors_of_the_clocks() -> None:
    assert check(overlap_of(10).history([]), "owner-mutex").verdict.valid is False
    assert check(overlap_of(14).history(clocks(4.9)), "owner-mutex").verdict.valid is False
    found = check(overlap_of(10).history(clocks(8)), "owner-mutex").verdict
    assert found.valid is None
    assert "the clocks of the machines are known to within 0.008" in found.explanation
