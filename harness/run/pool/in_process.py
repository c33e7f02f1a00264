"""The pool that executes every job in this process, when it is submitted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from .base import Params, Pool, Result
from .kept import close_kept


class InProcess(Pool):
    """One job at a time, in the thread that submits it."""

    in_advance = 1
    width = 1

    def submit(self, work: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)
        return future

    def close(self) -> None:
        close_kept()
