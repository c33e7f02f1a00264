"""The picture of a partial linearization: its geometry, and the page in a real browser, from a file."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from harness.checkers.linearizability.picture import Bar, Picture
from harness.history import SECOND
from harness.history.calls import NEVER
from harness.reports.linearization import draw, render, spread, write
from tests.reports.watched import watched

Open = Callable[..., Page]
MS = SECOND // 1000


def bar(client: str, label: str, invoked: int, returned: int, place: int = 0, state: str = "", **more: bool) -> Bar:
    """Return a call in a history with an entry each millisecond. A ``returned`` of -1 means no answer."""
    known = returned >= 0
    ended = returned * MS if known else NEVER
    return Bar(client, label, invoked, returned if known else NEVER, invoked * MS, ended, known, place, state, **more)


def double_hold() -> Picture:
    """Return a handwritten history in which c3 is granted a lock that c2 has not released."""
    return Picture(
        file="runs/redlock-20261121T020000Z-0/history.jsonl",
        model="owner-mutex",
        key="k0",
        sentence="c3 was granted k0 by entry 19 while c2 held it: c2's acquire had returned at entry 13, "
        "and its release was invoked only at entry 20.",
        initial="free",
        bars=(
            bar("c1", "acquire → fence 6", 0, 3, 1, "held by c1"),
            bar("c2", "acquire → fence 7", 1, 13, 3, "held by c2", core=True),
            bar("c1", "release", 4, 6, 2, "free"),
            bar("c3", "acquire → timed out", 2, -1),
            bar("c1", "acquire → fence 9", 7, 27),
            bar("c3", "acquire → fence 8", 14, 19, core=True, stuck=True),
            bar("c2", "release", 20, 22),
            bar("c3", "release", 24, 25),
            bar("c1", "release", 28, 29),
            bar("c2", "acquire → fence 10", 26, 31),
            bar("c2", "release", 32, 33),
            bar("c3", "acquire → fence 11", 30, 35),
        ),
        left_out=1204,
    )


def simulate_calls(
    seed: int, clients: int, count: int, ask: Callable[[random.Random, str], tuple[str, str] | None], initial: str
) -> list[Bar]:
    """Return ``count`` calls, each of which took effect no later than its return. ``ask(dice, state)`` returns a call
    and the next state. One call in thirty gets no answer; half of those take effect."""
    dice, state, place, entry = random.Random(seed), initial, 0, 0
    waiting: dict[int, int] = {}
    done: list[Bar] = []
    while len(done) < count:
        client = dice.randrange(clients)
        if client not in waiting:
            waiting[client] = entry
            entry += 1
            continue
        lost = dice.random() < 1 / 30
        told = None if lost and dice.random() < 0.5 else ask(dice, state)
        place, state = (place + 1, told[1]) if told else (place, state)
        label = (told or (f"write {dice.randrange(9)}", ""))[0]
        begun = waiting.pop(client)
        name = f"c{client}"
        done.append(bar(name, label, begun, -1 if lost else entry, place if told else 0, state if told else ""))
        entry += not lost
    return done


def register(dice: random.Random, state: str) -> tuple[str, str]:
    if dice.random() < 0.5:
        return f"read → {state}", state
    value = str(dice.randrange(10))
    return f"write {value}", value


def stale_read() -> Picture:
    """Return a history in which c2 reads a value that c1 has overwritten."""
    bars = simulate_calls(4, 5, 36, register, "0")
    last, place = max(one.returned for one in bars if not one.open), max(one.place for one in bars)
    bars += [
        bar("c0", "write 10", last + 1, last + 2, place + 1, "10"),
        bar("c1", "write 11", last + 3, last + 5, place + 2, "11", core=True),
        bar("c4", "read → 10", last + 4, last + 9),
        bar("c2", "read → 10", last + 6, last + 8, core=True, stuck=True),
        bar("c3", "write 3", last + 7, last + 10, place + 3, "3"),
    ]
    sentence = "c2 read 10, which c1 had overwritten with 11 before the read began, and nobody wrote 10 again."
    return Picture("register.edn", "register", "x", sentence, "0", tuple(bars))


def large() -> Picture:
    """Return 250 calls of twelve clients, none highlighted."""
    bars = simulate_calls(7, 12, 249, register, "0")
    last = max(one.returned for one in bars if not one.open)
    bars.append(bar("c3", "read → 77", last + 1, last + 2, stuck=True))
    return Picture("large.jsonl.gz", "register", "k12", "c3 read 77, which nobody wrote.", "0", tuple(bars))


PICTURES: dict[str, Callable[[], Picture]] = {"double": double_hold, "stale": stale_read, "large": large}


@pytest.fixture(params=list(PICTURES))
def picture(request: pytest.FixtureRequest) -> Picture:
    return PICTURES[request.param]()


@st.composite
def orders(pick: st.DrawFn) -> list[tuple[float, float]]:
    """Return windows between whole numbers, around rising instants. Many may share a gap between two entries."""
    some = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 12), st.integers(0, 12)), max_size=30)
    return [(float(max(0, gap - before)), float(gap + 1 + after)) for gap, before, after in sorted(pick(some))]


def inside(windows: Sequence[tuple[float, float]], points: Sequence[float]) -> bool:
    return all(begin < x < end for (begin, end), x in zip(windows, points, strict=True))


@given(orders(), st.sampled_from([0.5, 1.1, 2.75]))
@settings(max_examples=80)
def test_points_rise_inside_their_windows(windows: list[tuple[float, float]], apart: float) -> None:
    points = spread(windows, apart)
    assert inside(windows, points)
    assert all(a < b for a, b in pairwise(points))


def test_points_keep_their_distance_if_there_is_room() -> None:
    assert spread([(0, 100), (0, 100), (50, 100)], 2.0) == [2.0, 4.0, 52.0]


def test_steps_of_equal_length_leave_their_windows() -> None:
    """The control: steps must be shorter long before the gap that many points share."""
    windows = [(0.0, 9.0)] * 4 + [(0.0, 1.0)]
    assert not inside(windows, [0.5 * number for number in range(1, 6)])
    assert inside(windows, spread(windows, 0.5))


def test_an_order_that_contradicts_its_windows_still_rises() -> None:
    points = spread([(5.0, 6.0), (0.0, 1.0), (0.0, 3.0)], 0.5)
    assert all(a < b for a, b in pairwise(points))


@cache
def render_once(picture: Picture) -> str:
    return render(picture)


def svg(picture: Picture) -> ElementTree.Element:
    page = render_once(picture)
    begin = page.index('<svg class="calls"')
    return ElementTree.fromstring(page[begin : page.index("</svg>", begin) + 6])


def elements_with_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in root.iter() if name in one.get("class", "").split()]


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.get(name, "")) for name in names]


def test_the_drawing_agrees_with_the_picture(picture: Picture) -> None:
    root = svg(picture)
    path = elements_with_class(root, "order")[0].get("d", "")
    points = [tuple(map(float, part.split())) for part in path[1:].split("L")]
    placed = sorted((one for one in picture.bars if one.place), key=lambda one: one.place)
    groups = {one.get("id"): one for one in root.iter("g") if one.get("id")}
    assert len(points) == len(placed)
    assert all(a < b for (a, _), (b, _) in pairwise(points))
    assert len(groups) == len(picture.bars)
    for (x, y), one in zip(points, placed, strict=True):
        left, top, width = numbers(elements_with_class(groups[f"call-{one.invoked}"], "area")[0], "x", "y", "width")
        assert left < x < left + width
        assert top < y < top + 38
    assert sorted(int(one.text or "") for one in elements_with_class(root, "digits")) == [one.place for one in placed]


def test_the_line_is_at_the_return_that_no_order_reaches(picture: Picture) -> None:
    root, drawn = svg(picture), draw(picture)
    stuck = next(one for one in picture.bars if one.stuck)
    line = float(elements_with_class(root, "stuck")[0].get("d", "")[1:].split()[0])
    assert sum(
        numbers(elements_with_class(elements_with_class(root, "wrong")[0], "area")[0], "x", "width")
    ) == pytest.approx(line)
    assert "no order gets past this return" in "".join(root.itertext())
    assert all(call.mark < line for call in drawn.path if call.bar.invoked < stuck.returned)
    assert [call.bar for call in drawn.calls if call.fate == "wrong"] == [stuck]


def test_bars_in_a_row_do_not_overlap(picture: Picture) -> None:
    drawn = draw(picture)
    rows: dict[float, list[tuple[float, float]]] = {}
    for call in drawn.calls:
        rows.setdefault(call.y, []).append((call.x, call.x + call.width))
        assert any(lane.y < call.y < lane.y + lane.size and lane.text == call.bar.client for lane in drawn.lanes)
    assert all(end < begin for row in rows.values() for (_, end), (begin, _) in pairwise(sorted(row)))


def test_clients_are_ordered_by_number() -> None:
    assert [lane.text for lane in draw(large()).lanes] == [f"c{number}" for number in range(12)]


def test_a_client_with_an_unanswered_call_gets_another_row() -> None:
    """Its open call is assumed to have taken effect late, while the client's next calls went on."""
    bars = (
        bar("c1", "write 1", 0, -1, 3, "1"),
        bar("c1", "read → 0", 1, 2, 1, "0"),
        bar("c2", "read → 0", 4, 5, 2, "0"),
        bar("c1", "read → 1", 3, 9, 4, "1"),
        bar("c2", "read → 9", 10, 11, stuck=True),
    )
    drawn = draw(Picture("h", "register", "x", "wrong", "0", bars))
    assert drawn.lanes[0].size == 2 * drawn.lanes[1].size
    assert [call.bar.place for call in drawn.path] == [1, 2, 3, 4]


def test_calls_without_a_place_are_wrong_unknown_or_later() -> None:
    fates = {(call.bar.client, call.bar.invoked): call.fate for call in draw(double_hold()).calls}
    assert fates["c3", 14] == "wrong"
    assert fates["c3", 2] == "unknown"
    assert fates["c1", 7] == fates["c2", 20] == "later"


def test_without_a_line_every_known_call_without_a_place_is_wrong() -> None:
    bars = (bar("c1", "acquire", 0, 1, 1, "held"), bar("c2", "release", 2, 3), bar("c3", "acquire", 4, -1))
    picture = Picture("h", "mutex", "k", "wrong", "free", bars)
    assert [call.fate for call in draw(picture).calls] == ["placed", "wrong", "unknown"]
    assert draw(picture).stuck is None
    assert "no order gets past this return" not in "".join(svg(picture).itertext())


def test_the_contradicting_calls_are_highlighted_and_listed() -> None:
    root, page = svg(double_hold()), render_once(double_hold())
    bold = [one.get("id") for one in root.iter("g") if one.get("id") and "faded" not in one.get("class", "")]
    assert bold == ["call-1", "call-14"]
    assert "The answers of these 2 calls contradict each other" in page
    assert not elements_with_class(svg(large()), "faded")
    assert 'id="core"' not in render_once(large())


def test_states_and_calls_are_also_in_tables(picture: Picture) -> None:
    page = render_once(picture)
    order = page[page.index('<h2 id="order">') :]
    assert f"<td>{picture.initial}</td>" in order
    assert order.count('href="#call-') == len(picture.bars)
    assert f"<td>{next(one.state for one in picture.bars if one.place == 3)}</td>" in order


def test_text_of_a_history_is_escaped() -> None:
    bars = (bar("<b>c</b>", "write </svg><script>1", 0, 1, 1, '"&'), bar("c2", "x" * 500, 2, 3, stuck=True))
    page = render(Picture("<i>", "register", "'x'", "<u>wrong</u>", "0", bars))
    assert not any(text in page for text in ("<b>", "<u>", "<i>", "</svg><script>"))
    assert "x…</text>" in page


def test_times_are_left_out_if_the_history_has_none() -> None:
    bars = tuple(replace(one, began=-1, ended=-1 if one.known else NEVER) for one in double_hold().bars)
    drawn = draw(replace(double_hold(), bars=bars))
    assert {tick.more for tick in drawn.ticks} == {""}
    assert {call.when for call in drawn.calls if call.bar.invoked == 14} == {"entries 14 to 19"}


def test_an_empty_picture_is_drawn_and_equal_pictures_give_equal_bytes(tmp_path: Path) -> None:
    empty = Picture("h", "mutex", "k", "wrong", "free", (), 3)
    assert "0 of 3" in write(empty, tmp_path / "new" / "page.html").read_text()
    assert render(stale_read()) == render(stale_read())


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("linearization")
    return {kind: write(make(), folder / f"{kind}.html") for kind, make in PICTURES.items()}


@pytest.fixture
def opened(browser: Browser, pages: dict[str, Path]) -> Iterator[Open]:
    """Return a function: ``opened(kind, width, scheme)`` is a page that must send no request and log no complaint."""
    opened_kinds: list[str] = []
    with watched(browser) as (open_page, requests):

        def open_kind(kind: str, width: int = 1280, scheme: str = "light") -> Page:
            opened_kinds.append(kind)
            return open_page(pages[kind].as_uri(), width, scheme)

        yield open_kind
    assert len(requests) == len(opened_kinds)
    assert set(requests) <= {path.as_uri() for path in pages.values()}


@pytest.mark.browser
@pytest.mark.parametrize(("kind", "width"), [("double", 400), pytest.param("large", 1280, marks=pytest.mark.slow)])
def test_the_page_opens_with_the_line_in_view(opened: Open, kind: str, width: int) -> None:
    page = opened(kind, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    around = page.locator(".across").bounding_box()
    assert around is not None
    for which in (".over .cross", ".stuck", ".verdict-line"):
        box = page.locator(which).bounding_box()
        assert box is not None
        assert around["x"] + 50 < box["x"]
        assert box["x"] + box["width"] < around["x"] + around["width"]


CONTRAST: Final = """() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data]
      .map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const of = (node) => getComputedStyle(node), panel = of(document.querySelector(".drawing")).backgroundColor;
  const behind = (one) => one.matches(".digits") ? of(one.previousElementSibling).fill : panel;
  const ratio = (a, b) => Math.max(a, b) / Math.min(a, b);
  const texts = [...document.querySelectorAll(".drawing text")].filter((one) => one.textContent);
  return texts.map((one) => ratio(light(of(one).fill), light(behind(one))));
}"""
"""Contrast of each text in the drawing with its background (WCAG 2.1)."""


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast_and_every_part_has_a_name(opened: Open, scheme: str) -> None:
    page = opened("double", scheme=scheme)
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 30
    assert min(ratios) >= 4.5
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert body == {"light": "rgb(247, 247, 245)", "dark": "rgb(19, 22, 26)"}[scheme]
    unnamed = page.evaluate(
        """[...document.querySelectorAll('[role=img], [role=group], [tabindex], section, a')]
        .filter((e) => !(e.ariaLabel || e.getAttribute('aria-labelledby') || e.innerText?.trim())).length"""
    )
    assert unnamed == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.slow
@pytest.mark.browser
def test_calls_can_be_inspected_by_pointer_keys_and_links(opened: Open) -> None:
    page = opened("stale", 400)
    tip = page.locator("#tip")
    page.locator("#calls > .call.wrong").hover()
    assert "no order explains all calls up to its return" in tip.inner_text()
    page.mouse.move(5, 5)
    assert tip.is_hidden()
    page.locator("#calls > [tabindex='0']").focus()
    assert tip.inner_text().startswith("c2: read → 10")
    for key, told in (("Home", "step 1, and then: 0"), ("ArrowRight", "step 2, and then: 3")):
        page.keyboard.press(key)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert told in tip.inner_text()
    assert page.locator("#calls > [tabindex='0']").count() == 1
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator(".steps a").first.click()
    box = page.locator("#calls > :target").bounding_box()
    assert box is not None
    assert 50 < box["x"] < 400
    assert 60 < box["y"] < 900
