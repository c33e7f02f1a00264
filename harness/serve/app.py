"""The web application of ``harness serve``: its routes map each address to a page or a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from harness.documents.heads import HeadChecker
from harness.documents.messages import LOG, TRACE
from harness.errors import HarnessError, UsageError
from harness.faults.clock import ClockJump, ClockSkew
from harness.plan import allowing, load
from harness.reports import certainty
from harness.reports.words import VIRTUAL, unsaid
from harness.run import store as stores

from . import compare_page, files, live, moments, pages, sending, zipped
from .events import RunEvents
from .guard import Guard
from .index import Index, Run, Unreadable, read_results
from .query import PAGE, BadQuery, Choices, Query
from .status_page import StatusPage, StatusQuery
from .studies import SORTS, Studies, conclusion
from .trends_page import FRONT, TrendsPage

FRONTS: Final = (*(f"{name}.html" for name, _ in SORTS.values()), FRONT)
"""Pages that represent a folder of the store that is not a run's folder, in the order of preference."""
FOR_STRANGERS: Final = {"cross-origin-resource-policy": "cross-origin"}
"""Header of the icon: browsers also request it for stored pages, which count as another origin here."""
EMPTY: Final = {
    stores.COMPARISONS: ("Comparisons", "Which locks stay safe under which faults, and what each lock costs.",
                         "harness compare"),
    stores.SWEEPS: ("Sweeps", "How often a lock fails, by lease time, hold time and pause.",
                    "harness sweep redis-token --ttl 1s,2s,5s --hold 50ms,200ms --pause 0,1s,3s"),
    stores.HUNTS: ("Hunts", "Searches for schedules in which a lock fails, and what they found.",
                   f"harness hunt redlock --faults {ClockJump.name}"),
    stores.BISECTIONS: ("Bisections", "Searches for the release of a package that introduced or fixed a failure.",
                        "harness bisect redis-py-lock --package redis --good 3.0.0 --bad 2.10.6 --workload context"),
    stores.VERSIONS: ("Releases", "The same runs with several releases of a package or of servers, and what differs.",
                      "harness run redis-py-lock --versions redis==2.10.6,3.0.0 --workload context"),
}  # fmt: skip


class StorePages:
    """The pages of one store; the data read from the store is cached between requests."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.index = Index(store)
        self.studies = {folder: Studies(store, folder) for folder in EMPTY}
        self.trends = TrendsPage(store)
        self.status = StatusPage(self.index)
        self.events = RunEvents(self.index)
        self._known: tuple[list[Run], Choices] = ([], Choices.of([]))

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self.all_runs),
            *(Route(f"/runs{end}", lambda _: RedirectResponse("/")) for end in ("", "/")),
            Route("/runs/{lock}/{run}.zip", self.zip),
            Route("/runs/{lock}/{run}/", self.run),
            *(Route(f"/{folder}/", self.all_studies, name=folder) for folder in self.studies),
            *(Route(f"/trends{end}", self.all_nights) for end in ("", "/")),
            *(Route(f"/status{end}", self.all_statuses) for end in ("", "/")),
            *(Route(f"/compare{end}", self.compare) for end in ("", "/")),
            Route("/events", self.events.stream),
            *(
                Route(path, _with_slash)
                for path in ("/runs/{lock}/{run}", "/live/{lock}/{run}", *map("/{}".format, EMPTY))
            ),
            Route("/store/{path:path}", self.file),
            Route("/favicon.ico", lambda _: Response(status_code=204, headers=FOR_STRANGERS)),
        ]

    def all_runs(self, request: Request) -> Response:
        """Show the table of runs."""
        try:
            query = Query.of(request.query_params)
        except BadQuery as error:
            return pages.problem(400, f"{error}.")
        runs = self.index.runs()
        found = query.apply(runs)
        first = (query.page - 1) * PAGE
        return pages.answer(
            "runs.html",
            here="runs",
            script=pages.script_of("serve/runs.js"),
            query=query,
            choices=self._choices(runs),
            conclusion=self._choices(runs).conclusion,
            shown=found[first : first + PAGE],
            first=first,
            found=len(found),
            total=len(runs),
            last_page=max(1, -(-len(found) // PAGE)),
            fill=self._command(f"harness run redlock --nemesis {ClockSkew.name}"),
        )

    def _choices(self, runs: list[Run]) -> Choices:
        """Return the filter choices for these runs; cached, since the index returns the same list until something
        changes."""
        known, choices = self._known
        if known is not runs:
            choices = Choices.of(runs)
            self._known = runs, choices
        return choices

    def run(self, request: Request) -> Response:
        """Show one run: its verdict and its files."""
        lock, name = request.path_params["lock"], request.path_params["run"]
        run, folder = self.index.run(lock, name), files.run_folder(self.store, lock, name)
        if run is None or folder is None:
            raise HTTPException(404)
        try:
            results = read_results(folder)
        except Unreadable:
            results = None
        listed = files.listing(folder)
        names = {"/".join(entry.parts) for entry in listed}
        history = _history(self.store, lock, name)
        return pages.answer(
            "run.html",
            here="runs",
            script=pages.script_of("serve/run.js") if run.state in ("running", "broken") else "",
            run=run,
            title=pages.title_of(run.state, results.verdict if results else ""),
            sure=certainty.of_run(run.state) if results else "",
            reasons=unsaid(results.unknown_because, results.summary) if results else [],
            results=results,
            checkers=pages.gravest_first(results.checkers) if results else [],
            files=listed,
            report=stores.REPORT in names,
            messages=not names.isdisjoint({LOG, TRACE}),
            moments=(
                moments.moments(self.store, lock, name)
                if stores.REPORT in names and not names.isdisjoint({LOG, TRACE})
                else []
            ),
            history=history,
            checkable=stores.HISTORY in names and stores.PLAN in names,
            damaged=stores.RESULTS in names,
            replay=_replay(self.store / lock / name) if stores.PLAN in names else "",
            again=shlex.join(["harness", "report", str(self.store / lock / name)]),
            zip=pages.zip_url(lock, name),
            live=pages.live_url(lock, name),
            others=compare_page.choices(self.store, self.index, run),
            measured=compare_page.stored_measurements(folder),
            virtual_note=VIRTUAL,
        )

    def zip(self, request: Request) -> Response:
        """Send all files of a run as a zip file."""
        lock, name = request.path_params["lock"], request.path_params["run"]
        if self.index.run(lock, name) is None:
            raise HTTPException(404)
        headers = {"content-disposition": sending.attachment(f"{lock}-{name}.zip"), "content-type": "application/zip"}
        if request.method == "HEAD":
            return Response(headers=headers)
        return StreamingResponse(zipped.stream(self.store, (lock, name)), headers=headers)

    def all_studies(self, request: Request) -> Response:
        """Show the list of the studies of one sort."""
        folder = request.url.path.strip("/")
        title, about, command = EMPTY[folder]
        return pages.answer(
            "studies.html", here=folder, title=title, about=about, studies=(studies := self.studies[folder].all()),
            conclusion=conclusion(folder, studies), fill=self._command(command),
        )  # fmt: skip

    def all_nights(self, request: Request) -> Response:
        """Show the results of locks over the nightly runs."""
        try:
            text = self.trends.render(request.query_params)
        except HarnessError as error:
            return pages.answer(
                "no_trends.html", here="trends", title="Trends", why=str(error), fill=self._command("harness nightly")
            )
        return pages.embedded_page(text)

    def all_statuses(self, request: Request) -> Response:
        """Show the state of each lock under each family of faults."""
        try:
            values = self.status.values(StatusQuery.of(request.query_params))
        except BadQuery as error:
            return pages.problem(400, f"{error}.")
        except HarnessError as error:
            fill = self._command("harness nightly")
            return pages.answer("no_trends.html", here="status", title="Status", why=str(error), fill=fill)
        return pages.answer("status.html", here="status", command=self._command, sure=certainty.of_statuses(), **values)

    def compare(self, request: Request) -> Response:
        """Show two runs side by side; the parameters ``a`` and ``b`` are their places in the store, ``lock/run``."""
        both = [compare_page.compared(self.store, self.index, request.query_params.get(name, "")) for name in "ab"]
        first, second = both
        if first is None or second is None:
            return pages.problem(404, f"{'a' if first is None else 'b'}: expected a run of this store as lock/run.")
        names = dict.fromkeys((*first.checkers, *second.checkers))
        states = {name: (_state_in(first.checkers.get(name)), _state_in(second.checkers.get(name))) for name in names}
        return pages.answer(
            "compare.html",
            here="runs",
            both=(first, second),
            headline=compare_page.conclusion(states),
            sure=certainty.of_pair(),
            properties=sorted(states.items(), key=lambda one: one[1][0] == one[1][1]),
            settings=compare_page.settings(first, second),
            versions=compare_page.differing_versions(first, second),
            measured=compare_page.measurements(first, second),
        )

    def file(self, request: Request) -> Response:
        """Send a file of the store unchanged; for a folder, redirect to the page that represents it."""
        parts = tuple(name for name in request.path_params["path"].split("/") if name)
        file = files.open_file(self.store, parts) if len(parts) > 1 else None
        if file is not None:
            return sending.stored(request, file, parts[-1])
        folder = files.resolve(self.store, parts)
        address = None if folder is None else self._front(folder)
        if address is None:
            raise HTTPException(404)
        return RedirectResponse(address)

    def _front(self, folder: Path) -> str | None:
        """Return the address of the page that represents a folder of the store."""
        parts = folder.relative_to(self.store.resolve()).parts
        if len(parts) == 2 and self.index.run(*parts) is not None:
            return pages.run_url(*parts)
        front = next((name for name in FRONTS if files.is_file(folder / name)), None)
        return pages.store_url(*parts, front) if front and parts else None

    def _command(self, command: str) -> str:
        return command if self.store == Path("store") else f"{command} --out {shlex.quote(str(self.store))}"


def _state_in(checker: HeadChecker | None) -> str:
    return "" if checker is None else pages.state_of(checker)


def _history(store: Path, lock: str, run: str) -> str:
    """Say in a sentence what is wrong with the history of a run; empty if no problem was found."""
    file = files.open_file(store, (lock, run, stores.HISTORY))
    if file is None:
        return f"The history ({stores.HISTORY}) is missing, so the report of this run cannot be rewritten."
    with file:
        if not files.size(file):
            return f"The history ({stores.HISTORY}) is empty: nothing was recorded."
        file.seek(-1, 2)
        return (
            ""
            if file.read(1) == b"\n"
            else f"The history ({stores.HISTORY}) is truncated: its last line is incomplete."
        )


def _replay(folder: Path) -> str:
    """Return the command that repeats a stored run, with the arguments that allow the code that its plan names."""
    try:
        allowed = allowing(load(folder / stores.PLAN))
    except UsageError:
        allowed = []
    return shlex.join(["harness", "replay", str(folder), *allowed])


def _with_slash(request: Request) -> Response:
    return RedirectResponse(f"{quote(request.scope['raw_path'], safe='/%')}/")


def application(store: Path, hosts: Iterable[str] = ()) -> Guard:
    """Return the application that shows ``store``, for requests to ``localhost``, a loopback address, or one of
    ``hosts``."""
    routes = [*live.routes(store), *StorePages(store).routes()]
    handlers: dict[Any, Any] = {HTTPException: _http_problem, Exception: _own_problem}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # redirecting fails for names that are not UTF-8
    return Guard(app, hosts)


def _http_problem(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return pages.problem(
        status, "There is no page at this address." if status == 404 else "This request cannot be answered."
    )


def _own_problem(_: Request, error: Exception) -> Response:  # noqa: ARG001 - uvicorn prints it
    return pages.problem(500, "Internal error of the harness. The terminal that runs harness serve shows the details.")
