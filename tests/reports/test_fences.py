"""The resource's reaction to the tokens that it received."""

from __future__ import annotations

from typing import Any

from harness.history import Call, Op
from harness.reports import fences
from harness.reports.fences import ACCEPTED, REFUSED, STALE, UNKNOWN


def access(client: str, token: Any, at: int, arrival: int | None = None, **rest: Any) -> Call:
    f, outcome = rest.get("f", "write"), rest.get("outcome", "ok")
    value = None if arrival is None else {"arrival": arrival}
    mode = {"shared": True} if rest.get("shared") else {}
    begun = Op(at, at, 0, 0, "invoke", f, "k0", {"fence": token, **mode}, node=client)
    if outcome is None:
        return Call(begun, None)
    return Call(begun, Op(at + 1, at + 1, 0, 0, outcome, f, "k0", value, rest.get("error"), client))


def accesses_of(*calls: Call) -> list[tuple[str, int, int, int]]:
    on = fences.scale([fences.shown(call) for call in calls])
    return [(one.client, one.token, one.verdict, one.highest) for one in fences.accesses(calls, on)]


def test_a_higher_token_of_another_client_makes_a_write_stale() -> None:
    calls = access("c0", 1, 10, 1), access("c1", 2, 20, 2), access("c0", 1, 30, 3)
    assert accesses_of(*calls) == [("c0", 1, ACCEPTED, -1), ("c1", 2, ACCEPTED, 1), ("c0", 1, STALE, 2)]


def test_tokens_are_compared_in_the_order_of_arrival() -> None:
    assert [one[2] for one in accesses_of(access("c0", 1, 30, 1), access("c1", 2, 20, 2))] == [ACCEPTED, ACCEPTED]


def test_a_client_may_continue_with_its_own_lower_token() -> None:
    assert [one[2] for one in accesses_of(access("c0", 2, 10, 1), access("c0", 1, 20, 2))] == [ACCEPTED, ACCEPTED]


def test_shared_holders_may_come_in_any_order_but_not_after_a_later_writer() -> None:
    both = access("c1", 3, 10, 1, f="read", shared=True), access("c2", 2, 20, 2, f="read", shared=True)
    assert [one[2] for one in accesses_of(*both)] == [ACCEPTED, ACCEPTED]
    writer = access("c0", 4, 30, 3)
    assert accesses_of(*both, writer, access("c1", 3, 40, 4, f="read", shared=True))[-1] == ("c1", 3, STALE, 4)
    assert accesses_of(*both, access("c0", 1, 30, 3))[-1] == ("c0", 1, STALE, 3)


def test_a_refused_access_names_the_higher_token() -> None:
    stale = access("c0", 1, 30, outcome="fail", error="stale fence")
    assert accesses_of(access("c0", 1, 10, 1), access("c1", 7, 20, 2), stale)[-1] == ("c0", 1, REFUSED, 7)
    before = access("c1", 7, 20, 1), stale, access("c1", 9, 40, 2)
    assert ("c0", 1, REFUSED, 7) in accesses_of(*before), "the 9 came later"


def test_the_same_token_is_not_stale() -> None:
    assert accesses_of(access("c0", 3, 10, 1), access("c1", 3, 20, 2))[-1] == ("c1", 3, ACCEPTED, 3)


def test_accesses_refused_for_other_reasons_are_left_out() -> None:
    sold_out = access("c0", 1, 30, f="take", outcome="fail", error="sold out")
    assert len(accesses_of(access("c1", 2, 10, 1), sold_out)) == 1


def test_a_lost_answer_is_unknown() -> None:
    lost = access("c0", 1, 30, outcome="info"), access("c0", 1, 40, outcome=None)
    assert [one[2] for one in accesses_of(*lost)] == [UNKNOWN, UNKNOWN]


def test_numbers_in_text_form_are_compared_as_numbers() -> None:
    assert [one[1:3] for one in accesses_of(access("c0", "12", 1, 1), access("c1", 9, 5, 2))] == [
        (12, ACCEPTED),
        (9, STALE),
    ]


def test_other_tokens_are_placed_by_first_appearance() -> None:
    calls = access("c0", "f00", 1, 1), access("c1", "a1", 5, 2), access("c0", "f00", 9, 3)
    assert [one[1:3] for one in accesses_of(*calls)] == [(0, ACCEPTED), (1, ACCEPTED), (0, ACCEPTED)]
    on = fences.scale(["f00", 7])
    assert (on.place("f00"), on.place(7), on.names and on.names.texts) == (0, 1, ["f00", "7"])


def test_accesses_without_a_token_are_left_out() -> None:
    assert fences.accesses([access("c0", None, 1, 1)], fences.scale([])) == []
