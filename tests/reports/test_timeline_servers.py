"""The owner of a server's key, and the reason why the key disappears: each rule on a few states and calls."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest

from harness.history import Call, Op
from harness.history.lock_keys import KeyState
from harness.reports.holds import TimelineHold
from harness.reports.page import TEMPLATES
from harness.reports.timeline_servers import Stay, find_stays, known_until
from tests.reports.test_run_page import contrast

SECOND = 10**9


def state(at: float, owner: str | None = None, **rest: Any) -> KeyState:
    left = rest.pop("left", None)
    ns = None if left is None else round(left * SECOND)
    return KeyState(round(at * SECOND), rest.pop("host", "n1"), "k0", owner, ns, **rest)


def call(client: str, f: str, asked: float, done: float | None = None, outcome: str = "ok") -> Call:
    def op(at: float, kind: Any) -> Op:
        return Op(round(at * 1000), round(at * SECOND), 0, 0, kind, f, "k0", node=client)

    return Call(op(asked, "invoke"), None if done is None else op(done, outcome))


def hold(client: str, start: float, end: float | None = None) -> TimelineHold:
    until = None if end is None else round(end * SECOND)
    return TimelineHold(client, 0, "k0", round(start * SECOND), "", round(start * 1000), until)


def stays(
    states: list[KeyState], calls: list[Call] | None = None, holds: list[TimelineHold] | None = None
) -> list[Stay]:
    return find_stays(states, calls or [], holds or [])


def test_no_recorded_states_give_no_stays() -> None:
    assert stays([], [call("c0", "acquire", 1, 2)]) == []


def test_a_key_belongs_to_the_sender_of_its_message() -> None:
    (stay,) = stays([state(1.5, "a", by="c1")], [call("c0", "acquire", 1, 2)], [hold("c0", 2)])
    assert (stay.client, stay.who, stay.start, stay.end, stay.ended) == ("c1", "c1", 1_500_000_000, None, "open")


def test_a_key_belongs_to_the_client_that_sent_its_value_to_another_server() -> None:
    found = stays([state(1, "a", by="c1"), state(1.1, "a", host="n2"), state(1.2, "b", host="n3", by="c0")])
    assert [(stay.host, stay.client) for stay in found] == [("n1", "c1"), ("n2", "c1"), ("n3", "c0")]


def test_a_shared_value_belongs_to_its_last_sender() -> None:
    found = stays([state(1, "locked", by="c1"), state(2, by="c1"), state(3, "locked", by="c2")])
    assert [stay.client for stay in found] == ["c1", "c2"]


def test_a_key_without_a_sender_belongs_to_the_client_with_the_nearest_grant() -> None:
    """c1 has held the lock since 1 s, by value a. The value that appears at 2.01 s belongs to c0, whose grant is
    nearest."""
    calls = [call("c1", "acquire", 0.9, 1), call("c0", "acquire", 0, 2), call("c2", "acquire", 0, 5)]
    holds = [hold("c1", 1, 3), hold("c0", 2, 4), hold("c2", 5)]
    found = stays([state(1.02, "a"), state(2.01, "b", host="n2"), state(4.98, "c")], calls, holds)
    assert [stay.client for stay in found] == ["c1", "c0", "c2"]


def test_a_key_without_sender_or_acquire_shows_its_shortened_value() -> None:
    (stay,) = stays([state(9, "0123456789abcdef")], [call("c0", "acquire", 1, 2)], [hold("c0", 2, 3)])
    assert (stay.client, stay.who) == ("", "01234567…")


def test_a_shared_value_that_returns_starts_a_new_stay() -> None:
    """The sender is not recorded. c0's key expired while c0 was paused, and c1 wrote the same value."""
    calls = [call("c0", "acquire", 0.9, 1), call("c1", "acquire", 1.1, 3.02), call("c0", "release", 6)]
    holds = [hold("c0", 1, 6), hold("c1", 3.02)]
    states = [state(1.01, "1", left=2), state(1.02, "1", host="n2"), state(3, None), state(3.03, "1", left=2)]
    found = stays(states, calls, holds)
    assert [(stay.host, stay.client) for stay in found] == [("n1", "c0"), ("n2", "c0"), ("n1", "c1")]


def test_a_key_during_several_acquires_has_no_known_owner() -> None:
    """This holds for a value that disappeared before any of them was granted the lock. With a single acquire the
    value belongs to that client."""
    calls = [call("c0", "acquire", 0, 3), call("c1", "acquire", 0.5, 4)]
    (anybodys,) = stays([state(1, "abc"), state(1.2)], calls, [hold("c0", 3)])
    assert (anybodys.client, anybodys.who, anybodys.ended) == ("", "abc", "released")
    (alone,) = stays([state(1, "abc"), state(1.2)], calls[:1], [hold("c0", 3)])
    assert (alone.client, alone.ended) == ("c0", "released")


def test_a_key_that_disappears_during_the_hold_ended_early() -> None:
    calls = [call("c0", "acquire", 0.9, 1), call("c1", "acquire", 0.95, 4)]
    (stay,) = stays([state(1.01, "a", left=2), state(1.05)], calls, [hold("c0", 1, 1.1), hold("c1", 4)])
    assert (stay.client, stay.ended) == ("c0", "early")


def test_a_release_makes_the_next_in_the_queue_the_owner() -> None:
    calls = [call("c1", "release", 2, 2.2), call("c2", "acquire", 1, 2.15)]
    (stay,) = stays([state(2.1, "b", by="c1")], calls, [hold("c2", 2.15)])
    assert stay.client == "c2"


def test_a_key_that_disappears_at_the_release_was_released() -> None:
    (stay,) = stays([state(1, "a", by="c0", left=2), state(1.5, by="c0")])
    assert (stay.end, stay.until, stay.ended) == (1_500_000_000, 3 * SECOND, "released")


def test_a_followers_key_ends_by_the_release_at_its_leader() -> None:
    calls = [call("c0", "acquire", 0, 1.1), call("c0", "release", 1.4, 1.6)]
    (stay,) = stays([state(1, "a", by="c0"), state(1.45)], calls)
    assert stay.ended == "released"


def test_a_failed_acquire_removes_its_key() -> None:
    (stay,) = stays([state(1, "a", left=2), state(1.49)], [call("c0", "acquire", 0.9, 1.5, "fail")])
    assert (stay.client, stay.ended) == ("c0", "released")


def test_a_key_that_disappears_at_its_end_expired() -> None:
    (stay,) = stays([state(1, "a", by="c0", left=2), state(3.001)])
    assert stay.ended == "expired"


def test_a_key_that_outlives_its_release_expired() -> None:
    (stay,) = stays([state(1, "a", by="c0", left=2), state(3)], [call("c0", "release", 1.4, 1.6)])
    assert stay.ended == "expired"


@pytest.mark.parametrize(("by", "ended"), [(None, "early"), ("c1", "removed")])
def test_a_key_gone_before_its_end_ended_early_or_was_removed(by: str | None, ended: str) -> None:
    """There was no release, or only one by another client."""
    calls = [call("c0", "acquire", 0.5, 1.1), call("c0", "release", 2.5, 2.6)]
    (stay,) = stays([state(1, "a", by="c0", left=2), state(1.5, by=by)], calls)
    assert stay.ended == ended


def test_a_key_without_an_end_can_end_early() -> None:
    assert stays([state(1, "a", by="c0"), state(1.5)])[0].ended == "early"


def test_a_followers_key_has_the_end_of_its_leader() -> None:
    leader, follower = state(1, "a", by="c0", left=2), state(1, "a", by="c0", host="n2")
    found = stays([leader, follower, state(3), state(3.001, host="n2")])
    assert [stay.ended for stay in found] == ["expired", "expired"]


def test_a_renewed_key_ends_later() -> None:
    (stay,) = stays([state(1, "a", by="c0", left=2), state(2, "a", by="c0", left=2), state(4)])
    assert (stay.start, stay.until, stay.renewed, stay.ended) == (SECOND, 4 * SECOND, 1, "expired")


def test_an_end_that_moves_without_its_client_was_not_renewed() -> None:
    """The clock of a simulated server jumps. On a real server it is unknown whether the clock or the client moved the
    end."""
    (jumped,) = stays([state(1, "a", by="c0", left=2), state(2, "a", left=9), state(3, "a", by="c0", left=9)])
    assert (jumped.renewed, jumped.moved, jumped.until) == (1, 1, 12 * SECOND)
    (real,) = stays([state(1, "a", left=2), state(2, "a", left=2)])
    assert (real.renewed, real.moved) == (0, 1)


def test_a_grant_without_any_key_shows_that_the_record_has_ended() -> None:
    states = [state(1, "a", by="c0", left=2)]
    late = [hold("c0", 1.1, 4), hold("c1", 4.5)]
    assert known_until(states, late, 9 * SECOND, whole=True) == SECOND
    assert known_until(states, late[:1], 9 * SECOND, whole=True) == 9 * SECOND
    assert known_until(states, late[:1], 9 * SECOND, whole=False) == SECOND
    assert known_until([], late, 9 * SECOND, whole=True) == 9 * SECOND
    # A reentrant lock whose holder has not released every level: the key stays the holder's.
    kept = [state(1.0, "a", by=late[-1].client)]
    assert known_until(kept, late[-1:], 9 * SECOND, whole=True) == 9 * SECOND
    assert known_until([state(1.0, "a", by="somebody")], late[-1:], 9 * SECOND, whole=True) == SECOND


def test_another_owner_ends_a_stay() -> None:
    """The states do not show whether the new owner removed the key, or found none."""
    one, two = stays([state(1, "a", by="c0", left=2), state(1.5, "b", by="c1", left=2)])
    assert (one.ended, one.end, two.client, two.start) == ("early", two.start, "c1", 1_500_000_000)


def test_a_silent_server_is_shown_as_silent() -> None:
    looks = [state(1, "a", by="c0", left=5), state(2, answers=False), state(3, answers=False), state(4, "a", left=2)]
    before, silence, after = stays(looks)
    assert (before.ended, before.end) == ("no answer", 2 * SECOND)
    assert (silence.owner, silence.start, silence.end, silence.ended) == (None, 2 * SECOND, 4 * SECOND, "open")
    assert (after.client, after.start) == ("c0", 4 * SECOND)


def test_a_key_missing_after_an_outage_was_lost_unless_it_expired() -> None:
    _, silence = stays([state(1, "a", by="c0", left=5), state(2, answers=False), state(4)])
    assert silence.ended == "early"
    _, late = stays([state(1, "a", by="c0", left=5), state(2, answers=False), state(7)])
    assert late.ended == "open"


def test_a_key_released_during_an_outage_is_not_lost() -> None:
    """The server catches up with its leader."""
    calls = [call("c0", "acquire", 0.5, 1.1), call("c0", "release", 2.5, 2.6), call("c0", "acquire", 3, 9)]
    looks = [state(1, "a", by="c0", left=9), state(2, answers=False), state(4, "a"), state(4.1)]
    assert [stay.ended for stay in stays(looks, calls)] == ["no answer", "open", "released"]


@pytest.mark.parametrize("scheme", [0, 1])
def test_bars_have_readable_names_and_tones_of_different_brightness(scheme: int) -> None:
    """Adjacent tones differ in brightness, for readers who cannot distinguish colours."""
    roots = re.findall(r":root \{(.*?)\}", (TEMPLATES / "style.css").read_text(), re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", roots[scheme]))
    tones = [colours[f"who-{one}"] for one in "abcd"]
    for one in "abcdx":
        assert contrast(colours[f"on-who-{one}"], colours[f"who-{one}"]) >= 4.5, one
    assert all(contrast(a, b) >= 1.45 for a, b in combinations(tones, 2))
    for mark in ("gone", "token", "stay"):
        assert contrast(colours[mark], colours["panel"]) >= 2.5, mark
