"""What needs no engine of what is done with one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

import pytest

from harness.containers import engine


def test_an_interrupt_waits_for_what_has_begun_and_begins_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    def interrupted(futures: Iterable[object]) -> None:
        del futures
        time.sleep(0.05)
        raise KeyboardInterrupt

    def work(number: int) -> None:
        time.sleep(0.2)
        ended.append(number)

    monkeypatch.setattr(engine, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.in_parallel([partial(work, number) for number in range(3 * engine.AT_ONCE)])
    assert len(ended) == engine.AT_ONCE
    time.sleep(0.3)
    assert len(ended) == engine.AT_ONCE
