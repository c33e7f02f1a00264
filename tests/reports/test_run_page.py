"""The report page: self-contained, the verdict first, and the same bytes for the same run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from harness.checkers.base import Blame
from harness.documents.messages import MessageTrace
from harness.reports import model, run_report, untraced, words
from harness.reports.page import TEMPLATES
from tests.reports import sample

Reported = Callable[[str], Path]
VOID = frozenset({"meta", "link", "br", "img", "path", "circle", "input", "use"})


class Page(HTMLParser):
    """Collects what the tests need: attributes, text in order, headings, tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.styles: list[str] = []
        self.headings: list[str] = []
        self.stack: list[str] = []
        self.tables = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.headings += [tag] if re.fullmatch("h[1-6]", tag) else []
        self.tables += tag == "table"
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.stack:
            while self.stack.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "style" in self.stack:
            self.styles.append(data)
        elif "script" not in self.stack and "head" not in self.stack and data.strip():
            self.words.append(data.strip())

    def values(self, *names: str) -> list[str]:
        return [value for _, name, value in self.attributes if name in names]


@pytest.fixture(params=["violation", "valid", "unknown", "interrupted"])
def page(request: pytest.FixtureRequest, reported: Reported) -> Page:
    return Page(reported(request.param).read_text())


@pytest.mark.few(2)
def test_the_page_fetches_nothing(page: Page) -> None:
    fetching = page.values("src", "href", "xlink:href", "srcset", "action", "poster", "data", "background")
    assert [value for value in fetching if not value.startswith(("#", "data:"))] == []
    assert not [tag for tag, name, _ in page.attributes if tag in ("link", "iframe", "object", "embed", "base")]
    for style in page.styles + page.values("style", "clip-path"):
        assert "@import" not in style
        assert all(target.startswith(("#", "data:")) for target in re.findall(r"url\(['\"]?([^)]*)", style))


def test_the_page_contains_no_web_address(reported: Reported) -> None:
    text = reported("violation").read_text()
    assert "http://" not in text
    assert "https://" not in text
    assert "//cdn" not in text


@pytest.mark.parametrize(
    ("kind", "word"), [("violation", "Violation found"), ("valid", "Safe in this run"), ("unknown", "Unknown")]
)
def test_the_verdict_comes_first(reported: Reported, kind: str, word: str) -> None:
    page = Page(reported(kind).read_text())
    assert page.words[0] == word
    assert page.headings[0] == "h1"
    assert page.headings.count("h1") == 1


def test_both_holders_are_named_with_their_times(reported: Reported) -> None:
    text = " ".join(Page(reported("violation").read_text()).words)
    run = model.load(reported("violation").parent)
    for hold in run.evidence[0].involved:
        assert f"{hold.client} process {hold.process}" in text
        assert f"{((hold.start or 0) - run.history.origin) / 1e9:.3f} s" in text


def test_the_page_names_the_cause(reported: Reported) -> None:
    assert "Cause: server clocks jumped, so leases expired early." in reported("violation").read_text()
    assert set(run_report.BLAME) == set(get_args(Blame))


def test_an_unknown_verdict_has_a_reason(reported: Reported) -> None:
    text = " ".join(Page(reported("unknown").read_text()).words)
    assert "There is no verdict because:" in text
    assert "never observed" in text


@pytest.mark.parametrize(
    ("kind", "cluster", "command", "wanted"),
    [
        ("valid", {}, "harness run redlock", "only if it sends at most 500 requests. Run it again with --trace on"),
        ("violation", {}, "harness run redlock", "on containers keeps none. Run it again with --trace on"),
        ("valid", {}, "harness run redlock --trace off", "The run had --trace off. Run it again with --trace on"),
        ("valid", {"backend": "docker"}, "harness run redlock", "which may give another run, with --trace on"),
        ("valid", {"backend": "servers"}, "harness run redlock", "cannot see what servers of yours receive"),
        ("valid", {"backend": "ssh"}, "harness run redlock", "does not record them on machines that it reaches by ssh"),
        ("valid", {"backend": "docker", "kind": "kubernetes"}, "harness run k8s-lease", "Kubernetes are encrypted"),
    ],
)
def test_a_report_without_messages_says_why(
    reported: Reported, kind: str, cluster: dict[str, str], command: str, wanted: str
) -> None:
    run = model.load(reported(kind).parent)
    setting = tuple((dict(run.cluster) | cluster).items())
    changed = replace(run, backend=cluster.get("backend", "sim"), cluster=setting, command=command)
    said = untraced.reason(changed)
    assert said.startswith("This report has no messages between clients and servers: ")
    assert wanted in said
    can = cluster.get("backend") not in ("servers", "ssh") and "kind" not in cluster
    assert ("--trace on" in said) == can


def test_a_report_without_messages_says_so_on_its_page(reported: Reported) -> None:
    start = "This report has no messages between clients and servers: "
    for kind in ("violation", "valid"):
        assert sum(one.startswith(start) for one in Page(reported(kind).read_text()).words) == 1


def test_messages_that_cannot_be_decoded_have_a_reason(reported: Reported) -> None:
    run = model.load(reported("valid").parent)
    trace = MessageTrace(schema=1, kind="x", backend="sim", mode="on", total=0, undecoded=("no decoder for x",))
    assert "none could be decoded (no decoder for x)" in untraced.reason(replace(run, trace=trace))


@pytest.mark.slow
def test_times_are_called_virtual_only_in_the_simulator(folder: Path) -> None:
    simulated = run_report.write(folder).read_text()
    assert simulated.count(words.VIRTUAL) == 2
    assert "Times are virtual seconds since the first entry" in simulated
    assert "Median (virtual)" in simulated
    results = json.loads((folder / "results.json").read_text())
    results["cluster"]["backend"] = "docker"
    results["stats"].pop("virtual_seconds")
    (folder / "results.json").write_text(json.dumps(results))
    real = run_report.write(folder).read_text()
    assert "virtual" not in real[: real.index("<script")]


@pytest.mark.slow
def test_a_violation_at_one_moment_has_no_duration_of_zero(folder: Path) -> None:
    results = json.loads((folder / "results.json").read_text())
    checker = next(one for one in results["checkers"].values() if one["evidence"])
    checker["evidence"][0] |= {"until_ns": checker["evidence"][0]["from_ns"], "kind": "no-order"}
    (folder / "results.json").write_text(json.dumps(results))
    text = run_report.write(folder).read_text()
    assert re.search(r">no order at [\d.]+ s\b", text)
    assert ", 0 ns" not in text


def test_a_run_without_servers_has_no_word_about_messages(reported: Reported) -> None:
    assert untraced.reason(replace(model.load(reported("valid").parent), servers=())) == ""


def test_headings_do_not_skip_a_level(page: Page) -> None:
    levels = [int(heading[1]) for heading in page.headings]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_reference_has_a_target_and_ids_are_unique(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    wanted = {one for value in page.values("aria-labelledby", "aria-describedby") for one in value.split()}
    wanted |= {value[1:] for tag, name, value in page.attributes if (tag, name) == ("a", "href")}
    assert wanted <= set(ids)


def test_the_contents_are_first_in_tab_order_and_link_every_section(reported: Reported) -> None:
    text = reported("violation").read_text()
    headings = re.findall(r'<h2 id="([^"]+)"', text)
    links = re.findall(r'<a href="#([^"]+)"', text[: text.index("</header>")])
    assert links == headings
    assert headings[:4] == ["timeline", "figures", "checkers", "faults"]
    assert not re.search(r"<(button|summary|input)|tabindex", text[: text.index("<a href")])


def test_checkers_with_findings_come_before_the_others(reported: Reported) -> None:
    text = reported("violation").read_text()
    said = re.findall(r'<h3 id="checker-\d+">([^<]+)</h3>', text)
    assert said == ["mutual-exclusion", "resource", "fairness"]
    silent = text[text.index('<table class="silent">') :]
    assert re.findall(r'<th scope="row">([^<]+)</th>', silent[: silent.index("</table>")]) == ["ownership"]


def test_statistics_of_checkers_are_shown_in_words() -> None:
    counted = [("releases", "230"), ("longest_wait_s", "2.5"), ("recovery_s", ""), ("violations", "3")]
    assert words.stats(counted) == "230 releases; longest wait 2.5 s"
    causes = [("holds", "230"), ("service", "0"), ("clock", "3"), ("client", "0"), ("violations", "3")]
    assert words.stats(causes) == "230 holds; 3 overlaps, all caused by clocks"
    assert words.stats([*causes[:3], ("client", "1"), ("violations", "4")]).endswith("caused by clocks and clients")
    resource = [("accepted", "460"), ("unknown", "0"), ("writes", "k0 230"), ("lost", "1"), ("sections", "230")]
    assert words.stats(resource) == "460 accepted accesses; writes: k0 230; 1 lost update; 230 critical sections"


def test_every_table_has_a_caption(reported: Reported) -> None:
    text = reported("violation").read_text()
    assert text.count("<table") == text.count("<caption") > 5


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    made = [run_report.write(sample.write(tmp_path / str(i), "violation")).parent for i in range(2)]
    pictures = [f"{name}.svg" for name in ("latency", "rate", "recovery")]
    for name in ("report.html", *pictures):
        assert (made[0] / name).read_bytes() == (made[1] / name).read_bytes(), name
    run_report.write(made[0])
    assert (made[0] / "report.html").read_bytes() == (made[1] / "report.html").read_bytes()


def test_text_of_the_run_is_escaped(folder: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    results = json.loads((folder / "results.json").read_text())
    results["summary"] = evil
    results["checkers"]["mutual-exclusion"]["evidence"][0]["sentence"] = evil
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "logs" / "n1.log").write_text(evil)
    text = run_report.write(folder).read_text()
    assert "<img src=x" not in text
    assert text.count("</script>") == 2


def test_the_page_says_what_the_lock_is(folder: Path) -> None:
    results = json.loads((folder / "results.json").read_text())
    facts = results.get("lock_facts") or {}
    origin = {"kind": "model", "software": "RedLock.net", "version": "2.2", "what": "Dispose", "source": "RedLock.cs"}
    (folder / "results.json").write_text(json.dumps(results | {"lock_facts": facts | {"origin": origin}}))
    words = Page(run_report.write(folder).read_text()).words
    assert "A model of Dispose of RedLock.net 2.2 (RedLock.cs), not RedLock.net itself." in words


@pytest.mark.slow
def test_more_evidence_than_fits_is_counted(folder: Path) -> None:
    results = json.loads((folder / "results.json").read_text())
    checker = results["checkers"]["mutual-exclusion"]
    checker["evidence"] = checker["evidence"] * 20
    (folder / "results.json").write_text(json.dumps(results))
    assert "40 more are listed in results.json" in run_report.write(folder).read_text()


@pytest.mark.slow
def test_a_long_log_is_shown_from_its_end(folder: Path) -> None:
    (folder / "logs" / "n1.log").write_text("begin\n" + "x" * 40_000 + "\nthe end\n")
    text = run_report.write(folder).read_text()
    assert "the end" in text
    assert "begin\n" not in text
    assert "bytes are left out" in text


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_is_readable_in_both_schemes(scheme: int) -> None:
    style = (TEMPLATES / "style.css").read_text()
    colours = dict(
        re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", re.findall(r":root \{(.*?)\}", style, re.DOTALL)[scheme])
    )
    for ground in ("bg", "panel"):
        for ink in ("ink", "muted", "link", "bad", "good", "unsure", "fail", "info"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for ink, ground in [("bad", "bad-soft"), ("good", "good-soft"), ("unsure", "unsure-soft"), ("on-bad", "bad")]:
        assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    assert contrast(colours["on-hold"], colours["hold"]) >= 4.5
