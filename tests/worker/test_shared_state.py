"""Clients of a run share the modules of the libraries that the catalogue's locks use, since these keep no state there.

A library that has the user's lock is different: each client has a copy of it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.clusters.kinds import kinds
from harness.lock_impls import catalogue
from harness.plan import Plan
from harness.run.processes import workers
from harness.worker import world

from . import shared_state

BY_DEFAULT = ("python-redis-lock", "zookeeper-sequential")
SIMULATED = [info.name for info in catalogue.infos() if info.simulated and set(info.kinds) & set(kinds("sim"))]
REMEMBERS = """
import redis

HELD = {}


class Lock:
    tries = 0

    def __init__(self, client: redis.Redis, key: str, ttl: float) -> None:
        self.client, self.key = client, key

    def acquire(self, timeout):
        Lock.tries += 1
        HELD[self.key] = object()
        return bool(self.client.set(self.key, "1", nx=True))

    def release(self):
        self.client.delete(self.key)
"""


def changed_by(lock: str) -> list[str]:
    plan = msgspec.json.encode(Plan(lock=lock, clients=3, time_limit=3.0))
    found = workers.call("tests.worker.shared_state:changed", plan, lambda _kind, _body: None)
    return msgspec.json.decode(found, type=list[str])


@pytest.mark.slow
@pytest.mark.parametrize(
    "lock", [name if name in BY_DEFAULT else pytest.param(name, marks=pytest.mark.slow) for name in SIMULATED]
)
def test_a_lock_of_the_catalogue_leaves_no_state_in_modules_of_libraries(lock: str) -> None:
    assert changed_by(lock) == []


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_state_in_modules_and_classes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "remembering_lock"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(REMEMBERS)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(world, "CONNECTING", world.CONNECTING | {"remembering_lock"})  # clients share it, too
    plan = msgspec.json.encode(Plan(lock="remembering_lock:Lock", clients=3, time_limit=3.0))
    found = msgspec.json.decode(shared_state.changed(plan, channel=None), type=list[str])
    assert [name for name in found if name.startswith("remembering_lock")] == [
        "remembering_lock.HELD",
        "remembering_lock.Lock.tries",
    ]
