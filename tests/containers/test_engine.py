"""Functions of the engine module, tested without an engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound
from requests.exceptions import ReadTimeout

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


class FakeApi:
    """The containers, networks and volumes of an engine, each as (kind, run, name). It refuses to remove those in
    ``refused``, with a reason; containers among them have lost their names."""

    def __init__(self, *left: tuple[str, str, str], refused: dict[str, str] | None = None) -> None:
        self.left = list(left)
        self.refused = refused or {}

    def _things(self, kind: str, filters: dict[str, str]) -> list[dict[str, Any]]:
        return [
            {"Id": name, "Name": name, "Names": [] if name in self.refused else [f"/{name}"], "State": "running"}
            for own, run, name in self.left
            if own == kind and filters == engine._label_filter(run)
        ]

    def containers(self, filters: dict[str, str], **_: Any) -> list[Any]:
        return self._things("container", filters)

    def networks(self, filters: dict[str, str]) -> list[Any]:
        return self._things("network", filters)

    def volumes(self, filters: dict[str, str]) -> dict[str, Any]:
        return {"Volumes": self._things("volume", filters) or None}

    def _remove(self, name: str, **_: Any) -> None:
        if name in self.refused:
            raise APIError("409", explanation=self.refused[name])
        self.left = [thing for thing in self.left if thing[2] != name]

    remove_container = remove_network = remove_volume = _remove


def remove(api: FakeApi, *runs: str) -> list[str]:
    return engine.remove(SimpleNamespace(api=api), runs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a-n1", "driver failed to remove root filesystem"),
        ("a", "network has active endpoints"),
        ("a-data", "volume is in use"),
    ],
)
def test_what_cannot_be_removed_is_reported_after_all_else_is_removed(name: str, reason: str) -> None:
    things = [("container", "a", "a-n1"), ("container", "a", "a-n2"), ("network", "a", "a"), ("network", "a", "a2"),
              ("volume", "a", "a-data"), ("container", "b", "b-n1"), ("network", "b", "b")]  # fmt: skip
    api = FakeApi(*things, refused={name: reason})
    with pytest.raises(EnvironmentLacking, match=f"refuses to remove {name}: {reason}: restart it"):
        remove(api, "a", "b")
    assert [thing[2] for thing in api.left] == [name]


def test_things_that_are_gone_already_are_not_named() -> None:
    class Forgetful(FakeApi):
        def remove_network(self, name: str, **_: Any) -> None:
            raise NotFound(f"no such network: {name}")

    assert remove(Forgetful(("container", "a", "a-n1"), ("network", "a", "a")), "a") == ["a-n1"]


def test_a_removal_by_another_process_is_awaited() -> None:
    """The network can be removed only when its containers are gone."""

    class Busy(FakeApi):
        def wait(self, name: str, *, timeout: float, condition: str) -> None:
            assert (condition, timeout) == ("removed", engine.REMOVAL_S)
            del self.refused[name]
            self._remove(name)

        def remove_network(self, name: str, **_: Any) -> None:
            assert not self.refused, "it has active endpoints"
            self._remove(name)

    api = Busy(
        ("container", "a", "a-n1"), ("network", "a", "a"),
        refused={"a-n1": "removal of container a-n1 is already in progress"},
    )  # fmt: skip
    assert remove(api, "a") == ["a-n1", "a"]
    assert not api.left


def test_a_removal_by_another_process_that_does_not_end_is_reported() -> None:
    class Stuck(FakeApi):
        def wait(self, name: str, *, timeout: float, condition: str) -> None:
            raise ReadTimeout(f"{name} is not {condition} within {timeout} s")

    api = Stuck(
        ("container", "a", "a-n1"), ("container", "a", "a-n2"),
        refused={"a-n1": "removal of container a-n1 is already in progress"},
    )  # fmt: skip
    with pytest.raises(EnvironmentLacking, match="a-n1: a-n1 is not removed within 60 s"):
        remove(api, "a")
    assert [thing[2] for thing in api.left] == ["a-n1"]


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
