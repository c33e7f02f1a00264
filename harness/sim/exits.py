"""End the process of a simulated client, as the interpreter does when its main thread ends."""

from __future__ import annotations

from typing import NoReturn

from greenlet import GreenletExit

from .kernel import SimulationClosed, Task
from .pools import end_pools
from .threads import end_main_thread, join_others


def end_process(task: Task, *, cleans_up: bool) -> NoReturn:
    """End the process whose main thread is ``task``, which runs this. It does not return, and the host is then dead.

    ``cleans_up``: first the thread pools end, then the threads that are no daemons, and then the functions of
    ``atexit`` are called, the last first. What such a function raises is logged."""
    if cleans_up:
        end_pools(task)
        end_main_thread(task)
        join_others(task)
        _call_exit_functions(task)
    task.kernel.at(task.kernel.now, None, task.host.end_process)
    while True:
        task.park()


def _call_exit_functions(task: Task) -> None:
    functions = task.life.exit_functions
    while functions:
        function, args, kwargs = functions.pop()
        try:
            function(*args, **kwargs)
        except (SimulationClosed, GreenletExit):
            raise
        except BaseException as error:  # noqa: BLE001 - as the interpreter does
            task.host.log(f"a function of atexit raised {type(error).__name__}: {error}")
