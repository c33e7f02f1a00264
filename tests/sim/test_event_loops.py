"""Event loops of asyncio on simulated hosts: each simulated thread has its own, on virtual time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.sim.event_loops import SimEventLoop

from .world import TwoHostWorld


def in_a_thread(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine in an event loop outside a simulation. This thread may have one, of a browser in other tests."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(main())).result()


def results(*mains: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run each coroutine in an event loop of its own, all at the same time."""
    return TwoHostWorld().run(*(lambda main=main: asyncio.run(main()) for main in mains))


async def slept(seconds: float, value: Any = None) -> Any:
    await asyncio.sleep(seconds)
    return value


async def seconds_of(waiting: Coroutine[Any, Any, Any]) -> float:
    began = time.monotonic()
    await waiting
    return round(time.monotonic() - began, 6)


def test_loops_of_several_threads_run_at_the_same_time() -> None:
    async def main() -> tuple[float, bool]:
        loop = asyncio.get_running_loop()
        took = await seconds_of(slept(1.5))
        return took, loop is asyncio.get_running_loop() is asyncio.get_event_loop()

    assert results(main, main, main) == [(1.5, True)] * 3


def test_a_loop_that_is_blocked_stops_no_other_loop() -> None:
    async def blocks() -> float:
        began = time.monotonic()
        time.sleep(5)
        await asyncio.sleep(0)
        return round(time.monotonic() - began, 6)

    async def ticks() -> list[float]:
        return [await seconds_of(slept(1)) for _ in range(3)]

    assert results(blocks, ticks) == [[1.0] * 3, 5.0]


def test_a_loop_does_not_turn_while_no_time_passes() -> None:
    """Sums of float numbers leave some time-outs a little below 1 ns."""

    async def main() -> int:
        turns = 0
        selector: Any = vars(asyncio.get_running_loop())["_selector"]
        select = selector.select

        def counted(timeout: float | None) -> Any:
            nonlocal turns
            turns += 1
            return select(timeout)

        selector.select = counted
        for number in range(300):
            await asyncio.sleep(0.001 + number / 7e6)
        return turns

    (turns,) = results(main)
    assert turns <= 3 * 300


def test_groups_timeouts_and_shields() -> None:
    async def main() -> list[Any]:
        said: list[Any] = [*await asyncio.gather(slept(3, "a"), slept(1, "b"))]
        for waiting in (asyncio.wait_for(slept(9), 1), asyncio.wait_for(asyncio.shield(slept(2)), 1)):
            try:
                await waiting
            except TimeoutError:
                said.append(round(time.monotonic() % 100, 6))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(slept(seconds, seconds)) for seconds in (2, 1)]
        said.extend(task.result() for task in tasks)
        try:
            async with asyncio.timeout(1):
                await asyncio.Event().wait()
        except TimeoutError:
            said.append("timeout")
        return said

    assert results(main) == [["a", "b", 4.0, 5.0, 2, 1, "timeout"]]


def test_threads_executors_and_calls_from_other_threads() -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        answered = loop.create_future()

        def answer() -> None:
            time.sleep(2)
            loop.call_soon_threadsafe(answered.set_result, "answered")

        threading.Thread(target=answer).start()
        took = await seconds_of(asyncio.to_thread(time.sleep, 1))
        return [took, await loop.run_in_executor(None, lambda: "executed"), await answered]

    assert results(main, main) == [[1.0, "executed", "answered"]] * 2


def test_generators_that_are_left_early_are_closed_in_their_own_loop() -> None:
    closed: list[bool] = []

    async def numbers(loop: asyncio.AbstractEventLoop) -> AsyncIterator[int]:
        try:
            for number in range(9):
                await asyncio.sleep(0.1)
                yield number
        finally:
            closed.append(loop is asyncio.get_running_loop())

    async def main() -> None:
        async for number in numbers(asyncio.get_running_loop()):
            if number == 2:
                break
        await asyncio.sleep(0.1)

    results(main, main)
    assert closed == [True, True]


def test_streams_use_simulated_sockets() -> None:
    async def main() -> bytes:
        reader, writer = await asyncio.open_connection("b", 7)
        writer.write(b"hello")
        await writer.drain()
        answer = await reader.read(99)
        writer.close()
        await writer.wait_closed()
        return answer

    assert results(main, main) == [b"HELLO"] * 2


def test_the_order_of_futures_in_sets_depends_on_their_creation_alone() -> None:
    async def main() -> list[int]:
        done, _ = await asyncio.wait({asyncio.create_task(slept(1, number)) for number in range(20)})
        return [task.result() for task in done]

    assert results(main) == [list(range(20))]


def test_unnamed_tasks_are_numbered_as_in_a_new_process() -> None:
    async def main() -> list[str]:
        return [asyncio.create_task(slept(0)).get_name() for _ in range(2)]

    for _ in range(2):
        assert results(main) == [["Task-2", "Task-3"]]


def test_a_loop_ends_with_its_host_and_disturbs_no_other() -> None:
    world = TwoHostWorld()

    async def forever() -> None:
        while True:
            await asyncio.sleep(0.1)

    def main() -> Any:
        world.b.spawn(lambda: asyncio.run(forever()))
        time.sleep(1)
        world.b.kill()
        return asyncio.run(slept(1, "done"))

    assert world.run(main) == ["done"]


def test_simulated_threads_do_not_see_a_loop_around_the_simulation() -> None:
    async def main() -> tuple[list[Any], bool]:
        loop = asyncio.get_running_loop()
        return results(lambda: slept(1, "slept")), loop is asyncio.get_running_loop()

    assert in_a_thread(main) == (["slept"], True)


def test_outside_a_simulation_asyncio_is_as_before() -> None:
    results(lambda: slept(1))

    async def main() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert not isinstance(in_a_thread(main), SimEventLoop)
