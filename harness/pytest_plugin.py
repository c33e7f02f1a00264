"""The pytest plugin: a fixture and a marker by which a library's own tests hunt its locks, and fail with the story.

    def test_my_lock(harness):
        harness.hunt(MyLock, faults=("client-pause",), budget_s=20)

    @pytest.mark.hunt(MyLock, faults=("clock-jump",), budget_s=20)
    def test_my_lock_and_clocks(): ...

It comes with every pytest run where the harness is installed: it imports what it works with when that is first used.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, Unpack

import pytest

if TYPE_CHECKING:
    from .hunting.hunts import Hunted
    from .plan import Plan
    from .runs import Result

STORE: Final = ".harness"
MARKER: Final = "hunt"
HOW: Final = "as in @pytest.mark.hunt(lock=MyLock, faults=('client-pause',), budget_s=20)"
Found = TypeVar("Found")
Names = str | Sequence[str]
"""One name, or several."""


class Options(TypedDict, total=False):
    """What else a hunt can be asked for; :class:`harness.hunting.asked.Asked` says what each means."""

    most_faults: int
    workloads: Names
    look_for: Names
    kind: str
    nodes: int
    clients: int
    ttl: float
    fencing: Literal["on", "off", "cas"]
    lock_options: dict[str, Any]
    server_options: dict[str, Any]
    schedules: int
    thorough: bool


@dataclass(frozen=True, slots=True)
class _Settings:
    """What the command line says of all hunts; None where it says nothing."""

    store: Path
    began_in: Path
    budget_s: float | None
    seed: int | None
    workers: int | None
    fresh: bool

    def shown(self, path: str | Path) -> str:
        """A path as who called pytest would write it."""
        path = Path(path)
        return str(path.relative_to(self.began_in) if path.is_relative_to(self.began_in) else path)


_SETTINGS: Final = pytest.StashKey[_Settings]()


class LockBroken(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # pytest types it as a function
    """The test has failed since its lock does; the message is the story. What a test expects that is to show a failure:
    ``@pytest.mark.xfail(raises=LockBroken, strict=True)``, which wrong arguments do not satisfy."""


class Harness:
    """What the fixture ``harness`` is: hunts and runs that fail the test with what they have found."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._settings = item.config.stash[_SETTINGS]
        self._command = f"pytest {shlex.quote(item.nodeid)}"

    def hunt(
        self,
        lock: str | type,
        *,
        faults: Names = (),
        budget_s: float = 60.0,
        rounds: int | None = None,
        seed: int = 0,
        workers: int = 1,
        **options: Unpack[Options],
    ) -> Hunted:
        """Search for a schedule in which the lock fails, for ``budget_s`` seconds or so many ``rounds``; see
        :func:`harness.hunt`. The test fails with the story of a failure, and also if nothing could be judged: what
        proves nothing must not pass. Failures are kept, and those of earlier hunts are tried first.
        """
        from .hunting.hunts import hunt
        from .pytest_asked import asked_by

        said = self._settings
        alarm = _Alarm()
        hunted = _plainly(
            lambda: alarm.held_back(
                hunt,
                asked_by(lock, faults=faults, seed=seed if said.seed is None else said.seed, **options),
                budget_s=said.budget_s or budget_s,
                rounds=None if said.budget_s else rounds,
                workers=said.workers or workers,
                fresh=said.fresh,
                store=_opened(said.store),
                command=self._command,
                progress=alarm.between,
            )
        )
        if hunted.document["interrupted"]:
            raise KeyboardInterrupt
        self._note("hunt", hunted.asked.lock)
        self._note("schedules", hunted.document["schedules"])
        if hunted.findings:
            self._note("failure", said.shown(hunted.findings[0].folder or said.store))
            raise LockBroken(self._told(hunted), pytrace=False)
        if hunted.exit_status:
            self._note("unknown", hunted.asked.lock)
            pytest.fail(
                f"UNKNOWN: {hunted.asked.lock}: no schedule could be judged\n{self._told(hunted)}", pytrace=False
            )
        return hunted

    def run(self, plan: Plan | str | type, **fields: Any) -> Result:
        """Run a plan, or the plan of a lock with these ``fields`` (of :class:`harness.Plan`; faults may be named), and
        fail the test with what happened unless it was valid."""
        from .pytest_asked import plan_by
        from .reported import reported
        from .runs import run

        result = _plainly(lambda: run(plan_by(plan, fields, self._settings.seed), command=self._command))
        if result.interrupted:
            raise KeyboardInterrupt
        lock = result.plan.lock
        self._note("run", lock)
        if result.valid:
            return result
        kept = _plainly(lambda: reported(result, _opened(self._settings.store), self._command))
        assert kept.folder is not None
        folder = self._settings.shown(kept.folder)
        links = f"repeat: harness replay {shlex.quote(folder)}\nreport: {folder}/report.html"
        told = f"{lock}\n{kept.document['summary']}\n{links}"
        if result.valid is None:
            self._note("unknown", folder)
            pytest.fail(f"UNKNOWN: {told}", pytrace=False)
        self._note("failure", folder)
        raise LockBroken(f"VIOLATION: {told}", pytrace=False)

    def _told(self, hunted: Hunted) -> str:
        """The lines of a hunt, with the paths as the user would write them."""
        from .hunting.telling import told

        shown = [{**found, "folder": self._settings.shown(found["folder"])} for found in hunted.document["findings"]]
        document = {name: value for name, value in hunted.document.items() if name != "folder"}
        return "\n".join(told({**document, "findings": shown}))

    def _note(self, what: str, value: object) -> None:
        """For the line at the end of the session, and for JUnit; reports of other processes bring it along."""
        self._item.user_properties.append((f"harness_{what}", value))


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Harness:
    """Hunts and runs of locks under faults, on the simulator: harness.hunt(MyLock, faults=..., budget_s=20)."""
    return Harness(request.node)


# What is asked for.


def _plainly(work: Callable[[], Found]) -> Found:
    """What the user can mend fails the test with one message, and no traceback. Warnings are those of client libraries:
    of use to nobody, and with ``-W error`` they would look like failures of the lock."""
    from .errors import HarnessError

    try:
        with warnings.catch_warnings(action="ignore"):
            return work()
    except HarnessError as error:
        message = f"harness: {error}"  # said below, or pytest would show what it comes from, too
    return pytest.fail(message, pytrace=False)


def _opened(store: Path) -> Path:
    """The store; if we make it, git is told to leave it alone."""
    with contextlib.suppress(FileExistsError, FileNotFoundError):  # what else is wrong with it, the hunt will say
        store.mkdir()
        (store / ".gitignore").write_text("*\n", encoding="utf-8")
    return store


class _Alarm:
    """pytest-timeout's signal, kept until a schedule is over: its error, raised in the midst of one, would be lost in
    the lock's own handling of errors, or be taken for a failure by Hypothesis."""

    def __init__(self) -> None:
        self._rung = False

    def held_back(self, work: Callable[..., Found], *arguments: Any, **named: Any) -> Found:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
            return work(*arguments, **named)
        theirs = signal.signal(signal.SIGALRM, self._ring)
        try:
            return work(*arguments, **named)
        finally:
            signal.signal(signal.SIGALRM, theirs)
            if self._rung and callable(theirs):
                theirs(signal.SIGALRM, None)

    def between(self, _fraction: float, _text: str) -> None:
        """Is called after each schedule."""
        if self._rung:
            raise KeyboardInterrupt

    def _ring(self, *_: Any) -> None:
        self._rung = True


# What pytest calls.


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("harness", "locks under faults (harness)")
    group.addoption("--harness-budget", metavar="5s", type=_budget, help="how long each hunt searches")
    group.addoption("--harness-seed", metavar="N", type=int, help="the seed of all hunts and runs")
    group.addoption("--harness-workers", metavar="N", type=_workers, help="processes that play each hunt")
    group.addoption("--harness-fresh", action="store_true", help="do not try the failures of earlier hunts first")
    group.addoption("--harness-store", metavar="DIR", type=Path, help=f"where failures are kept (else {STORE})")
    parser.addini("harness_store", f"where failures are kept, below the root of the tests ({STORE})", default=STORE)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(lock, *, faults=..., budget_s=60, ...): before the test, search the simulator's schedules for one "
        "in which the lock fails; the arguments are those of harness.hunt",
    )
    began_in = config.invocation_params.dir
    given: Path | None = config.getoption("harness_store")
    config.stash[_SETTINGS] = _Settings(
        store=config.rootpath / config.getini("harness_store") if given is None else began_in / given,
        began_in=began_in,
        budget_s=config.getoption("harness_budget"),
        seed=config.getoption("harness_seed"),
        workers=config.getoption("harness_workers"),
        fresh=config.getoption("harness_fresh"),
    )
    config.pluginmanager.register(_Sums(config.stash[_SETTINGS]), "harness-sums")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The line of a failure in pytest's summary is its first: under CI, pytest would tell the whole story again."""
    report = yield
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and call.excinfo is not None and isinstance(call.excinfo.value, LockBroken):
        crash.message = crash.message.partition("\n")[0]
    return report


def pytest_pycollect_makeitem(name: str, obj: object) -> None:
    """pytest takes ``@pytest.mark.hunt(MyLock)`` for a mark on MyLock: the test under it would be lost in silence."""
    if isinstance(obj, type) and any(
        mark.name == MARKER and not mark.args and not mark.kwargs for mark in vars(obj).get("pytestmark", ())
    ):
        raise pytest.Collector.CollectError(f"the marker {MARKER} is on {name} itself: name the lock, {HOW}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """The hunts of a test's markers, the outermost first."""
    for mark in reversed(list(item.iter_markers(MARKER))):
        if len(mark.args) + ("lock" in mark.kwargs) != 1:
            pytest.fail(f"the marker {MARKER} takes one lock, {HOW}", pytrace=False)
        Harness(item).hunt(*mark.args, **mark.kwargs)


def _budget(text: str) -> float:
    from .plan import seconds

    try:
        given = seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if given <= 0:
        raise argparse.ArgumentTypeError(f"must be more than 0 seconds, got {text}")
    return given


def _workers(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text!r}")
    return int(text)


class _Sums:
    """What the hunts and runs of a session came to, from the reports of its tests."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings
        self._sums: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":  # the last of a test's three, which all have the same properties
            for what, value in report.user_properties:
                self._sums[what] += int(value) if what == "harness_schedules" else 1  # type: ignore[call-overload]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        sums = {what: self._sums[f"harness_{what}"] for what in ("hunt", "schedules", "run", "failure", "unknown")}
        if not sums["hunt"] + sums["run"]:
            return
        said = [_counted(sums["run"], "run")] if sums["run"] else []
        if sums["hunt"]:
            said = [_counted(sums["hunt"], "hunt"), _counted(sums["schedules"], "schedule"), *said]
        said.append(_counted(sums["failure"], "failure"))
        said += [f"{sums['unknown']:,} without a verdict"] if sums["unknown"] else []
        where = f" (reports in {self._settings.shown(self._settings.store)})" if sums["failure"] else ""
        terminalreporter.write_line(f"harness: {', '.join(said)}{where}")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
