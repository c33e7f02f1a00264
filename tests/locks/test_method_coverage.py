"""Which methods of a lock the harness calls, and which exist and are not called."""

from __future__ import annotations

import pytest

from harness.cli.main import main
from harness.lock_impls import catalogue
from harness.lock_impls.method_coverage import MethodCoverage, method_coverage

LIBRARY = "redis.lock.Lock"


class Owned:
    """A lock with methods that nobody calls, one that a called method calls, and no ``with``."""

    def __init__(self, client: object, name: str, ttl: float) -> None:
        self.client, self.name, self.ttl = client, name, ttl

    def acquire(self) -> bool:
        return self.try_once()

    def try_once(self) -> bool:
        return False

    def release(self) -> None: ...

    def locked(self) -> bool:
        return False

    @classmethod
    def of(cls) -> None: ...


def coverage_of(name: str) -> dict[str, MethodCoverage]:
    return {one.cls: one for one in method_coverage(catalogue.resolve(name))}


def test_methods_that_called_methods_call_are_called_and_others_are_not() -> None:
    found = coverage_of(f"{__name__}:Owned")[f"{__name__}.Owned"]
    assert found.called == ("acquire", "release", "try_once")
    assert found.not_called == ("locked",)


def test_an_adapter_calls_those_methods_of_its_library_that_it_names() -> None:
    found = coverage_of("redis-py-lock")
    assert set(found) == {"RedisPyLock", LIBRARY}
    assert {"acquire", "context", "extend", "release", "still_valid"} <= set(found["RedisPyLock"].called)
    assert {"acquire", "owned", "reacquire", "release", "with"} <= set(found[LIBRARY].called)
    assert {"extend", "locked"} <= set(found[LIBRARY].not_called)


def test_a_class_of_a_library_is_called_by_acquire_release_with_and_one_method_that_prolongs() -> None:
    found = coverage_of("redis.asyncio.lock:Lock")["redis.asyncio.lock.Lock"]
    assert {"acquire", "reacquire", "release", "with"} <= set(found.called)
    assert {"extend", "locked", "owned"} <= set(found.not_called)


def test_a_lock_in_another_language_has_no_methods_here() -> None:
    assert method_coverage(catalogue.resolve("redisson-lock")) == ()


@pytest.mark.parametrize("name", ["kazoo-lock", "pottery-redlock", "redis-token", "zookeeper-sequential"])
def test_a_lock_of_the_catalogue_is_called_by_acquire_and_release(name: str) -> None:
    assert {"acquire", "release"} <= set(method_coverage(catalogue.resolve(name))[0].called)


def test_show_lists_the_methods(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["show", "sherlock-redis"])
    assert ended.value.code in (0, None)
    shown = " ".join(capsys.readouterr().out.split())
    assert "methods called sherlock.lock.RedisLock: acquire, release, renew, with" in shown
    assert "methods not called sherlock.lock.RedisLock: locked" in shown
