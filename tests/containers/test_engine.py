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


class LoadedApi:
    """Fails to freeze a container so many times, as runc does on a loaded machine."""

    def __init__(self, failures: int, explanation: str = "OCI runtime pause failed: unable to freeze: unknown") -> None:
        self.failures = failures
        self.explanation = explanation
        self.pauses = 0

    def pause(self, name: str) -> None:
        assert name == "id"
        self.pauses += 1
        if self.pauses <= self.failures:
            raise APIError("500", explanation=self.explanation)


def box_of(api: LoadedApi) -> engine.Box:
    return engine.Box(SimpleNamespace(api=api), "id", 1, "")  # type: ignore[arg-type]


def test_a_container_that_could_not_be_frozen_is_tried_again() -> None:
    api = LoadedApi(engine.FREEZES - 1)
    box_of(api).pause()
    assert api.pauses == engine.FREEZES


def test_a_container_that_cannot_be_frozen_is_an_error() -> None:
    hopeless, gone = LoadedApi(100), LoadedApi(1, "No such container")
    for api, tries in ((hopeless, engine.FREEZES), (gone, 1)):
        with pytest.raises(APIError):
            box_of(api).pause()
        assert api.pauses == tries


def test_only_a_process_of_this_pid_namespace_and_machine_is_known_to_be_gone() -> None:
    own = engine._process_name()
    gone = f"999999999:{own.partition(':')[2]}"
    assert engine._alive(own)
    assert not engine._alive(gone)
    assert engine._alive(f"{gone[:-1]}-"), "the boot id is that of another machine"
