"""When the clients of a real run start."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters import client_starts
from harness.clusters.base import RecordEntry
from harness.clusters.client_starts import ClientStarts

GAP = 0.05


class FakeHost:
    """A client's host whose program never ends, and records what the test wants."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.conversation = object()
        self.alive = True
        self.launched = threading.Event()
        self.at = 0.0
        self.record: RecordEntry | None = None

    def launch(self, job: Any, record: RecordEntry) -> Callable[[float], bool]:
        del job
        self.at, self.record = time.monotonic(), record
        self.launched.set()
        return lambda timeout: timeout > 1e6

    def take_first_step(self) -> None:
        assert self.record is not None
        self.record(f="acquire")


@pytest.fixture
def hosts() -> list[FakeHost]:
    return [FakeHost(f"c{number}") for number in range(3)]


def job_of(generation: int = 0, gap: float = GAP) -> Any:
    return SimpleNamespace(plan=SimpleNamespace(stagger=gap), generation=generation)


def launch(starts: ClientStarts, host: Any, generation: int = 0, gap: float = GAP) -> Callable[[float], bool]:
    return starts.launch(host, job_of(generation, gap), lambda **_: None)


def launch_all(starts: ClientStarts, hosts: list[FakeHost]) -> list[Callable[[float], bool]]:
    return [launch(starts, host) for host in hosts]


def test_client_starts_after_the_first_entry_of_the_one_before(
    hosts: list[FakeHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_starts, "LATEST", 3600)
    launch_all(ClientStarts(), hosts)
    assert hosts[0].launched.is_set()
    assert not hosts[1].launched.wait(3 * GAP)
    stepped = time.monotonic()
    hosts[0].take_first_step()
    assert hosts[1].launched.wait(60)
    assert hosts[1].at >= stepped + GAP
    assert not hosts[2].launched.wait(3 * GAP)
    hosts[1].take_first_step()
    assert hosts[2].launched.wait(60)


def test_entries_are_recorded(hosts: list[FakeHost]) -> None:
    entries: list[dict[str, Any]] = []
    ClientStarts().launch(hosts[0], job_of(), lambda **entry: entries.append(entry))  # type: ignore[arg-type]
    hosts[0].take_first_step()
    assert entries == [{"f": "acquire"}]


def test_client_starts_though_the_one_before_records_nothing(
    hosts: list[FakeHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_starts, "LATEST", GAP)
    launch_all(ClientStarts(), hosts[:2])
    assert hosts[1].launched.wait(60)


@pytest.mark.parametrize(("generation", "gap"), [(1, GAP), (0, 0.0)])
def test_restarted_client_and_one_of_a_plan_without_stagger_start_at_once(
    hosts: list[FakeHost], generation: int, gap: float
) -> None:
    launch(ClientStarts(), hosts[1], generation, gap)
    assert hosts[1].launched.is_set()


@pytest.mark.parametrize("change", [{"alive": False}, {"conversation": object()}])
def test_client_whose_process_ended_before_its_start_is_not_started(
    hosts: list[FakeHost], change: dict[str, Any]
) -> None:
    starts = ClientStarts()
    joins = launch_all(starts, hosts[:2])
    for name, value in change.items():
        setattr(hosts[1], name, value)
    hosts[0].take_first_step()
    assert not hosts[1].launched.wait(3 * GAP)
    assert joins[1](0.0)


def test_client_that_has_not_started_at_the_end_does_not_start(hosts: list[FakeHost]) -> None:
    starts = ClientStarts()
    joins = launch_all(starts, hosts[:2])
    assert not joins[0](0.0)  # it runs
    assert joins[1](0.0)
    hosts[0].take_first_step()
    assert not hosts[1].launched.wait(3 * GAP)


def test_nobody_starts_after_the_end(hosts: list[FakeHost]) -> None:
    starts = ClientStarts()
    launch_all(starts, hosts[:2])
    starts.end()
    hosts[0].take_first_step()
    assert not hosts[1].launched.wait(3 * GAP)
