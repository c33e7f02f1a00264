"""Holds, mutual exclusion and fencing against their definitions: exhaustively on small histories, then at random.

Exhaustive: every order of the entries of two clients with each of 7 scripts of up to 6 entries (3,306 orders of 49
pairs), of three clients with 3 entries each (1,680), and of two clients with 4 entries each under every pattern of
equal times (70 x 128 = 8,960): 13,946 histories.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers.fencing import FencingChecker
from harness.checkers.holds import holds
from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.history import History, OpType
from tests.checkers.naive import naive_holds, naive_overlap, naive_token_trouble
from tests.checkers.story import Story

Entry = tuple[str, str, Any]
ACQUIRE: Entry = ("acquire", "invoke", {"timeout": 9.0})
OK: Entry = ("acquire", "ok", {"fence": None, "valid_for": None})
SHARED: Entry = ("acquire", "ok", {"fence": None, "valid_for": None, "shared": True})
RELEASE: Entry = ("release", "invoke", None)
OUTCOMES: tuple[OpType, ...] = ("ok", "ok", "ok", "fail", "info")
SCRIPTS: dict[str, list[Entry]] = {
    "holds": [ACQUIRE, OK],
    "releases": [ACQUIRE, OK, RELEASE, ("release", "ok", None)],
    "release unknown": [ACQUIRE, OK, RELEASE, ("release", "info", None)],
    "unknown": [ACQUIRE, ("acquire", "info", None)],
    "fails": [ACQUIRE, ("acquire", "fail", None)],
    "nests": [ACQUIRE, OK, ACQUIRE, OK, RELEASE, ("release", "ok", None)],
    "shares": [ACQUIRE, SHARED, RELEASE, ("release", "ok", None)],
    "is told": [ACQUIRE, OK, ("check", "invoke", None), ("check", "ok", {"valid": False})],
}


def orders(lengths: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every interleaving of sequences of these lengths, as the client of each step."""
    if not any(lengths):
        yield ()
    for client, left in enumerate(lengths):
        if left:
            rest = tuple(n - (i == client) for i, n in enumerate(lengths))
            for tail in orders(rest):
                yield (client, *tail)


def interleaved_history(
    scripts: list[list[Entry]], order: tuple[int, ...], gaps: tuple[int, ...] = (), **options: Any
) -> History:
    """Return the history of an interleaving; ``gaps`` are the seconds before each step but the first (default 1)."""
    story = Story(**options)
    at, positions = 1.0, [0] * len(scripts)
    for step, client in enumerate(order):
        at += (gaps[step - 1] if gaps else 1) if step else 0
        f, type_, value = scripts[client][positions[client]]
        positions[client] += 1
        story.entry(at, f"c{client}", type_, f, "k0", value)  # type: ignore[arg-type]
    return story.history(at + 1)


def agree(history: History) -> None:
    held = naive_holds(history)
    fast = [(hold.client, hold.key, hold.start_ns, hold.end_ns) for hold in holds(history)]
    assert sorted(fast) == sorted((hold.client, hold.key, hold.start, hold.end) for hold in held)
    assert (MutualExclusionChecker().check(history).valid is False) == naive_overlap(held)


@pytest.mark.few(10)
@pytest.mark.parametrize("pair", list(product(SCRIPTS, SCRIPTS)), ids="+".join)
def test_checkers_match_definitions_for_two_clients(pair: tuple[str, str]) -> None:
    scripts = [SCRIPTS[name] for name in pair]
    for order in orders((len(scripts[0]), len(scripts[1]))):
        agree(interleaved_history(scripts, order))


@pytest.mark.slow
def test_checkers_match_definitions_for_three_clients() -> None:
    for order in orders((3, 3, 3)):
        agree(interleaved_history([SCRIPTS["releases"][:3]] * 3, order))


@pytest.mark.slow
def test_checkers_match_definitions_for_equal_times() -> None:
    for order in orders((4, 4)):
        for gaps in product((0, 1), repeat=7):
            agree(interleaved_history([SCRIPTS["releases"]] * 2, order, gaps))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw up to 30 entries of 3 clients and 2 keys, with leases, checks, crashes, ties, unknown outcomes, random
    tokens and shared acquires."""
    story = Story(discipline=draw(st.sampled_from(["trusting", "checking"])))
    pending: dict[str, tuple[str, str]] = {}
    at = 1.0
    for _ in range(draw(st.integers(1, 30))):
        at += draw(st.sampled_from([0.0, 0.5, 1.0]))
        client = f"c{draw(st.integers(0, 2))}"
        if client not in pending:
            f = draw(st.sampled_from(["acquire", "acquire", "release", "check", "extend", "crash"]))
            if f == "crash":
                story.crash(at, client)
                continue
            pending[client] = (f, f"k{draw(st.integers(0, 1))}")
            story.entry(at, client, "invoke", *pending[client])
            continue
        f, key = pending.pop(client)
        type_: OpType = draw(st.sampled_from(OUTCOMES))
        story.entry(at, client, type_, f, key, _answer(draw, f, client) if type_ == "ok" else None)
    return story.history(at + 1)


def _answer(draw: st.DrawFn, f: str, client: str) -> Any:
    if f == "acquire":
        mode = {"shared": True} if client != "c0" and draw(st.booleans()) else {}
        tokens = st.one_of(st.none(), st.integers(0, 5), st.sampled_from(["a", "b"]))
        return {"fence": draw(tokens), "valid_for": draw(st.sampled_from([None, -0.5, 0.0, 1.0, 2.0])), **mode}
    return {{"check": "valid", "extend": "extended", "release": "done"}[f]: draw(st.booleans())}


@pytest.mark.slow
@settings(max_examples=200)
@given(histories())
def test_checkers_match_definitions_on_random_histories(history: History) -> None:
    agree(history)
    assert (FencingChecker().check(history).valid is False) == naive_token_trouble(naive_holds(history))


def test_fencing_matches_its_definition_for_all_small_token_orders() -> None:
    """Two clients, one round each: 70 orders x 3^2 tokens of {1, 2, "a"} = 630 histories."""
    for order in orders((4, 4)):
        for tokens in product((1, 2, "a"), repeat=2):
            scripts = [
                [ACQUIRE, ("acquire", "ok", {"fence": token}), RELEASE, ("release", "ok", None)] for token in tokens
            ]
            history = interleaved_history(scripts, order)
            assert (FencingChecker().check(history).valid is False) == naive_token_trouble(naive_holds(history))


@pytest.mark.parametrize(("tokens", "sentence"), [((1, 2), "are in order"), (("b", "a"), "differ")])
def test_tokens_that_are_texts_are_not_called_ordered(tokens: tuple[int | str, ...], sentence: str) -> None:
    story = Story()
    for number, token in enumerate(tokens):
        story.acquire(f"c{number}", number + 0.1, number + 0.2, fence=token).release(f"c{number}", number + 0.5)
    verdict = FencingChecker().check(story.history())
    assert verdict.valid is True
    assert f"the tokens of 2 grants {sentence}" in verdict.explanation


def test_many_overlaps_are_all_counted_and_twenty_are_listed() -> None:
    story = Story()
    for n in range(100):
        begin = 1.0 + 3 * n
        story.acquire("c0", begin, begin + 0.1, valid_for=2.0).acquire("c1", begin, begin + 1, valid_for=2.0)
        story.release("c0", begin + 1.5).release("c1", begin + 1.6)
    verdict = MutualExclusionChecker().check(story.history())
    assert verdict.stats["violations"] == 100
    assert len(verdict.evidence) == 20
    assert verdict.evidence[0].blame == "service"
    assert (
        "Two clients held k0 at the same time for 500 ms: c0 until 2.500 s, and c1 from 2.000 s" in verdict.explanation
    )


@pytest.mark.parametrize(("valid_for", "blame"), [(None, "service"), (2.0, "service"), (0.5, "client")])
def test_overlap_is_blamed_on_the_service_or_the_client(valid_for: float | None, blame: str) -> None:
    story = Story().acquire("c0", 0.1, 0.2, valid_for=valid_for).acquire("c1", 0.3, 1.0)
    verdict = MutualExclusionChecker().check(story.release("c0", 1.5).release("c1", 1.6).history())
    assert [violation.blame for violation in verdict.evidence] == [blame]


def test_an_overlap_after_a_pause_without_a_stated_lease_is_blamed_on_the_client() -> None:
    story = Story().acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.3, 3.3).acquire("c1", 0.3, 2.3)
    verdict = MutualExclusionChecker().check(story.release("c0", 3.4).release("c1", 3.5).history())
    assert [violation.blame for violation in verdict.evidence] == ["client"]


def test_a_client_continues_under_a_new_process_number() -> None:
    story = Story().acquire("c0", 0.1, 0.2).call("c0", "write", 0.3, 0.4, "info", asked={"value": 1})
    story.acquire("c1", 0.15, 0.7).release("c0", 0.6).release("c1", 0.8)
    assert MutualExclusionChecker().check(story.history()).valid is True


def relied_on(until: float) -> Story:
    """c0 is granted k0 at 0.11 s and relies on it until ``until``, and c1 is granted it at 2.2 s."""
    got = {"fence": None, "valid_for": None, "relies_for": until - 0.11}
    return Story().call("c0", "acquire", 0.1, 0.11, asked={"timeout": 9.0}, got=got).acquire("c1", 0.3, 2.2)


@pytest.mark.parametrize(("until", "overlaps"), [(1.7, 0), (2.5, 1)])
def test_a_hold_ends_when_its_client_stops_relying_on_it(until: float, overlaps: int) -> None:
    story = relied_on(until).call("c0", "extend", 3.0, 3.1, "info", error="no answer")
    history = story.release("c0", 3.2).release("c1", 3.5).history()  # c0 has another process number by then
    assert len(MutualExclusionChecker().check(history).evidence) == overlaps
    first = holds(history)[0]
    assert (first.ended, first.end_ns, first.release >= 0) == ("expired", pytest.approx(until * 1e9), True)


def test_an_extend_says_how_long_its_client_relies_on_the_hold() -> None:
    story = relied_on(1.7).call("c0", "extend", 1.5, 1.51, got={"extended": True, "relies_for": 1.0})
    assert holds(story.release("c1", 3.5).history())[0].end_ns == pytest.approx(2_510_000_000)


def test_an_extend_prolongs_a_lease_that_the_lock_states() -> None:
    story = Story(lease=2.0).acquire("c0", 0.1, 0.11).call("c0", "extend", 1.0, 1.5, got={"extended": True})
    assert holds(story.history()).stated_end.tolist() == [3_500_000_000]
