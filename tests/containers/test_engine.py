"""Functions of the engine module, tested without an engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from harness.clusters.docker.containers import engine
from harness.errors import EnvironmentLacking


def test_an_interrupt_awaits_running_calls_and_starts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Semaphore(0), list[int]()
    may_end = threading.Event()

    def interrupted(futures: Iterable[object]) -> None:
        del futures
        for _ in range(engine.AT_ONCE):
            assert began.acquire(timeout=60)
        threading.Timer(1.0, may_end.set).start()
        raise KeyboardInterrupt

    def work(number: int) -> None:
        began.release()
        may_end.wait(60)
        ended.append(number)

    monkeypatch.setattr(engine, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.in_parallel([partial(work, number) for number in range(3 * engine.AT_ONCE)])
    assert len(ended) == engine.AT_ONCE
    time.sleep(0.3)
    assert len(ended) == engine.AT_ONCE


class StubbornApi:
    """Counts an endpoint on one network whose container is gone."""

    def __init__(self) -> None:
        self.left = ["stubborn", "soft"]

    def containers(self, **_: Any) -> list[Any]:
        return []

    def networks(self, **_: Any) -> list[dict[str, str]]:
        return [{"Id": name, "Name": name} for name in self.left]

    def volumes(self, **_: Any) -> dict[str, Any]:
        return {"Volumes": None}

    def remove_network(self, name: str) -> None:
        if name == "stubborn":
            raise APIError("403", explanation="network has active endpoints")
        self.left.remove(name)


def test_networks_that_cannot_be_removed_are_reported_after_all_else_is_removed() -> None:
    api = StubbornApi()
    with pytest.raises(EnvironmentLacking, match="stubborn: network has active endpoints"):
        engine.remove(SimpleNamespace(api=api), ["a run"])  # type: ignore[arg-type]
    assert api.left == ["stubborn"]


def test_only_a_process_of_this_pid_namespace_and_machine_is_known_to_be_gone() -> None:
    own = engine._process_name()
    gone = f"999999999:{own.partition(':')[2]}"
    assert engine._alive(own)
    assert not engine._alive(gone)
    assert engine._alive(f"{gone[:-1]}-"), "the boot id is that of another machine"
