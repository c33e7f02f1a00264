"""The pytest plugin: a fixture and a marker with which a library's own tests hunt its locks under faults.

The message of a failing test tells how the lock failed.

    def test_my_lock(harness):
        harness.hunt(MyLock, faults=("client-pause",), budget_s=20)

    @pytest.mark.hunt(MyLock, faults=("clock-jump",), budget_s=20)
    def test_my_lock_and_clocks(): ...

Every pytest run loads this module where the harness is installed. So the module imports other parts only when they are
first used.
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
    from harness.plan import Plan
    from harness.run.verdicts.judging import Result
    from harness.search.hunt import HuntResult

STORE: Final = ".harness"
MARKER: Final = "hunt"
HOW: Final = "as in @pytest.mark.hunt(lock=MyLock, budget_s=20)"
Found = TypeVar("Found")
Names = str | Sequence[str]
"""One name, or several."""


class Options(TypedDict, total=False):
    """Further options of a hunt; :class:`harness.search.request.HuntRequest` describes them."""

    most_faults: int
    workloads: Names
    look_for: Names
    kind: str
    nodes: int
    clients: int
    ttl: float
    fencing: Literal["on", "off", "cas"]
    lease: str
    lock_options: dict[str, Any]
    server_options: dict[str, Any]
    schedules: int
    thorough: bool
    stop_at_first: bool


@dataclass(frozen=True, slots=True)
class _Settings:
    """Command-line settings of all hunts; None if the option is not given."""

    store: Path
    began_in: Path
    budget_s: float | None
    seed: int | None
    workers: int | None
    fresh: bool

    def shown(self, path: str | Path) -> str:
        """Return the path as the user who called pytest would write it."""
        path = Path(path)
        return str(path.relative_to(self.began_in) if path.is_relative_to(self.began_in) else path)


_SETTINGS: Final = pytest.StashKey[_Settings]()


class LockBroken(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # pytest types it as a function
    """The test failed because its lock did; the message tells how.

    A test that must show a failure is marked ``@pytest.mark.xfail(raises=LockBroken, strict=True)``. Wrong arguments
    raise another error.
    """


class Harness:
    """Value of the fixture ``harness``: hunts and runs that fail the test with their findings."""

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
    ) -> HuntResult:
        """Search for a schedule in which the lock fails, for ``budget_s`` seconds or this number of ``rounds``; see
        :func:`harness.hunt`.

        The test fails with the story of a failure. It also fails if no schedule could be judged, because that proves
        nothing. Failures are stored, and those of earlier hunts are tried first.
        """
        from harness.search.hunt import hunt

        from .options import request_of

        said = self._settings
        alarm = _DelayedTimeout()
        result = _with_plain_errors(
            lambda: alarm.held_back(
                hunt,
                request_of(lock, faults=faults, seed=seed if said.seed is None else said.seed, **options),
                budget_s=said.budget_s or budget_s,
                rounds=None if said.budget_s else rounds,
                workers=said.workers or workers,
                fresh=said.fresh,
                store=_opened(said.store),
                command=self._command,
                progress=alarm.between,
            )
        )
        self._fail_unless_valid(result)
        return result

    def _fail_unless_valid(self, result: HuntResult) -> None:
        """Note the figures of a hunt, and fail the test with its story if it found a failure or judged nothing."""
        if result.results.interrupted:
            raise KeyboardInterrupt
        self._note("hunt", result.request.lock)
        self._note("schedules", result.results.schedules)
        if result.results.failed:
            self._note("failure", self._settings.shown(result.findings[0].folder or self._settings.store))
            raise LockBroken(self._told(result), pytrace=False)
        if result.exit_status:
            self._note("unknown", result.request.lock)
            pytest.fail(
                f"UNKNOWN: {result.request.lock}: no schedule could be judged\n{self._told(result)}", pytrace=False
            )

    def run(self, plan: Plan | str | type, **fields: Any) -> Result:
        """Run a plan, or the plan of a lock with these ``fields`` (of :class:`harness.Plan`; faults may be named).

        The test fails with a summary unless the run is valid.
        """
        from harness.plan import allowing
        from harness.run.runs import run
        from harness.run.with_report import with_report

        from .options import plan_by

        result = _with_plain_errors(lambda: run(plan_by(plan, fields, self._settings.seed), command=self._command))
        if result.interrupted:
            raise KeyboardInterrupt
        lock = result.plan.lock
        self._note("run", lock)
        if result.valid:
            return result
        kept = _with_plain_errors(lambda: with_report(result, _opened(self._settings.store), self._command))
        assert kept.folder is not None
        folder = self._settings.shown(kept.folder)
        repeat = shlex.join(["harness", "replay", folder, *allowing(result.plan)])
        links = f"repeat: {repeat}\nreport: {folder}/report.html"
        text = f"{lock}\n{kept.results.summary}\n{links}"
        if result.valid is None:
            self._note("unknown", folder)
            pytest.fail(f"UNKNOWN: {text}", pytrace=False)
        self._note("failure", folder)
        raise LockBroken(f"VIOLATION: {text}", pytrace=False)

    def _told(self, result: HuntResult) -> str:
        """Return the summary lines of a hunt, with paths as the user would write them."""
        from msgspec.structs import replace as with_

        from harness.search.summary import result_lines

        shown, results = self._settings.shown, result.results
        findings = tuple(with_(found, folder=found.folder and shown(found.folder)) for found in results.findings)
        return "\n".join(result_lines(with_(results, findings=findings, folder=None)))

    def _note(self, what: str, value: object) -> None:
        """Store a property for the session's summary and for JUnit; the reports of other processes carry it."""
        self._item.user_properties.append((f"harness_{what}", value))


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Harness:
    """Hunts and runs of locks under faults, on the simulator: harness.hunt(MyLock, faults=..., budget_s=20)."""
    return Harness(request.node)


# Helpers.


def _with_plain_errors(work: Callable[[], Found]) -> Found:
    """Call ``work``; an error that the user can fix fails the test with one message, without a traceback.

    Warnings are ignored: they come from client libraries, and with ``-W error`` they would look like failures of the
    lock.
    """
    from harness.errors import HarnessError

    try:
        with warnings.catch_warnings(action="ignore"):
            return work()
    except HarnessError as error:
        message = f"harness: {error}"  # raised outside the handler, or pytest would also show its cause
    return pytest.fail(message, pytrace=False)


def _opened(store: Path) -> Path:
    """Return the store. If it is created here, git is told to ignore it."""
    from harness.errors import HarnessError
    from harness.files import write_file

    with contextlib.suppress(OSError, HarnessError):  # the hunt reports any other problem with it
        store.mkdir()
        write_file(store / ".gitignore", "*\n")
    return store


class _DelayedTimeout:
    """Delays pytest-timeout's signal until a schedule is over.

    An error raised during a schedule would be lost in the lock's own error handling, or Hypothesis would take it for a
    failure.
    """

    def __init__(self) -> None:
        self._rung = False

    def held_back(self, work: Callable[..., Found], *arguments: Any, **named: Any) -> Found:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
            return work(*arguments, **named)
        previous_handler = signal.signal(signal.SIGALRM, self._ring)
        try:
            return work(*arguments, **named)
        finally:
            signal.signal(signal.SIGALRM, previous_handler)
            if self._rung and callable(previous_handler):
                previous_handler(signal.SIGALRM, None)

    def between(self, _fraction: float, _text: str) -> None:
        """Interrupt the hunt if the signal has arrived; called after each schedule."""
        if self._rung:
            raise KeyboardInterrupt

    def _ring(self, *_: Any) -> None:
        self._rung = True


# Hooks of pytest.


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("harness", "locks under faults (harness)")
    group.addoption("--harness-budget", metavar="5s", type=_budget, help="how long each hunt searches")
    group.addoption("--harness-seed", metavar="N", type=int, help="the seed of all hunts and runs")
    group.addoption("--harness-workers", metavar="N", type=_workers, help="worker processes of each hunt")
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
    """Shorten a failure's line in pytest's summary to its first line: under CI, pytest would repeat the whole story."""
    report = yield
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and call.excinfo is not None and isinstance(call.excinfo.value, LockBroken):
        crash.message = crash.message.partition("\n")[0]
    return report


def pytest_pycollect_makeitem(name: str, obj: object) -> None:
    """Refuse ``@pytest.mark.hunt(MyLock)`` on a lock: pytest applies the mark to MyLock, and the test under it would be
    lost without a message."""
    if isinstance(obj, type) and any(
        mark.name == MARKER and not mark.args and not mark.kwargs for mark in vars(obj).get("pytestmark", ())
    ):
        raise pytest.Collector.CollectError(f"the marker {MARKER} is on {name} itself: name the lock, {HOW}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Run the hunts of a test's markers, the outermost first."""
    for mark in reversed(list(item.iter_markers(MARKER))):
        if len(mark.args) + ("lock" in mark.kwargs) != 1:
            pytest.fail(f"the marker {MARKER} takes one lock, {HOW}", pytrace=False)
        Harness(item).hunt(*mark.args, **mark.kwargs)


def _budget(text: str) -> float:
    from harness.plan import seconds

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
    """Totals of a session's hunts and runs, from the reports of its tests."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings
        self._sums: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":  # the last of a test's three reports, which all have the same properties
            for what, value in report.user_properties:
                self._sums[what] += int(value) if what == "harness_schedules" else 1  # type: ignore[call-overload]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        sums = {what: self._sums[f"harness_{what}"] for what in ("hunt", "schedules", "run", "failure", "unknown")}
        if not sums["hunt"] + sums["run"]:
            return
        from harness.wording import counted

        said = [counted(sums["run"], "run")] if sums["run"] else []
        if sums["hunt"]:
            said = [counted(sums["hunt"], "hunt"), counted(sums["schedules"], "schedule"), *said]
        said.append(counted(sums["failure"], "failure"))
        said += [f"{sums['unknown']:,} without a verdict"] if sums["unknown"] else []
        where = f" (reports in {self._settings.shown(self._settings.store)})" if sums["failure"] else ""
        terminalreporter.write_line(f"harness: {', '.join(said)}{where}")
