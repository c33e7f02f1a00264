"""Servers of a user that sentinels monitor: their address, the possible faults, and a failover by a hook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import FaultSpec, Plan, run
from harness.cli.options import named_servers
from harness.clusters.servers.addresses import parse_server
from harness.clusters.servers.services.redis import SentinelRedis
from harness.errors import UNKNOWN, EnvironmentLacking, UsageError
from harness.plan import Hook
from harness.run.plans.completion import complete
from harness.run.verdicts.judging import Result

from .own_redis import SentinelPasswords, SentinelSetup, daemon_sentinel, keys_at, sentinel_setup
from .secured import SECRET, VARIABLE, leaks

TWO = "redis+sentinel://127.0.0.1:26379,127.0.0.1:26380/mymaster"


def test_sentinels_are_one_address() -> None:
    address = parse_server(TWO)
    assert address.places == (("127.0.0.1", 26379), ("127.0.0.1", 26380))
    assert (address.primary, str(address)) == ("mymaster", TWO)
    assert named_servers([TWO], "sim") == ([TWO], "servers")
    assert named_servers(["redis://a,redis://b:1"], "sim")[0] == ["redis://a", "redis://b:1"]
    assert str(parse_server("redis+sentinel://localhost/other.name")) == "redis+sentinel://localhost:26379/other.name"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("redis+sentinel://127.0.0.1:26379", "with the name of the primary"),
        ("redis+sentinel://127.0.0.1:26379/my/master", "with the name of the primary"),
        ("redis+sentinel:///mymaster", "names no host"),
        ("redis+sentinel://127.0.0.1:1,127.0.0.1:1/mymaster", "the sentinel 127.0.0.1:1 is given twice"),
        ("redis+sentinel://127.0.0.1:port/mymaster", "is no address"),
    ],
)
def test_wrong_addresses_of_sentinels_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_server(text)


def sentinel_plan(url: str = TWO, **more: Any) -> Plan:
    return Plan(**{"lock": "redis-token", "cluster": "servers", "servers": (url,), **more}).check()


def test_the_lock_runs_on_the_kind_with_sentinels() -> None:
    assert complete(sentinel_plan()).kind == "redis-sentinel"
    assert complete(sentinel_plan(lock="redis-wait")).kind == "redis-sentinel"
    with pytest.raises(UsageError, match=r"redlock runs on|cannot be"):
        complete(sentinel_plan(lock="redlock"))
    with pytest.raises(UsageError, match=r"cannot be a Redis, its replicas|use --cluster docker"):
        complete(Plan(lock="redis-wait", cluster="servers", servers=("redis://127.0.0.1",)).check())


def test_faults_of_connections_are_refused_since_no_proxy_is_before_the_primary() -> None:
    with pytest.raises(UsageError) as refused:
        complete(sentinel_plan(faults=(FaultSpec("latency", at=1.0, for_=1.0),)))
    possible = str(refused.value).partition("possible are ")[2].partition(";")[0].split(", ")
    assert possible == ["client-crash", "client-hang", "client-pause", "none"]


def test_hooks_may_strike_sentinels() -> None:
    hook = {"kill": Hook(command="true", observe="true")}
    spec = FaultSpec("kill", at=1.0, params={"target": "s2"})
    assert complete(sentinel_plan(faults=(spec,), hooks=hook))
    with pytest.raises(UsageError, match="target of fault 'kill'"):
        complete(sentinel_plan(faults=(FaultSpec("kill", at=1.0, params={"target": "s3"}),), hooks=hook))


def test_sentinels_that_do_not_answer_are_named() -> None:
    with pytest.raises(EnvironmentLacking, match=r"the sentinel at 127\.0\.0\.1:1: .*refused"):
        run(sentinel_plan("redis+sentinel://127.0.0.1:1/mymaster"))


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[SentinelSetup]:
    (tmp_path / "data").mkdir()
    with sentinel_setup(tmp_path / "data") as found:
        yield found


SENTINEL_VARIABLE = "HARNESS_TEST_SENTINEL_PASSWORD"
SENTINEL_SECRET = f"{SECRET}-of-sentinels"
PASSWORDS = SentinelPasswords(SECRET, "watch", SENTINEL_SECRET)
OPTIONS = f"?sentinel_username=watch&sentinel_password=${SENTINEL_VARIABLE}"


@pytest.fixture
def sentinel_password(password: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SENTINEL_VARIABLE, SENTINEL_SECRET)


def test_a_wrong_password_of_sentinels_is_named(
    sentinel_password: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon_sentinel(tmp_path, 1, PASSWORDS) as sentinel:
        where, url = (
            f"the sentinel at 127.0.0.1:{sentinel.port}",
            f"redis+sentinel://127.0.0.1:{sentinel.port}/mymaster",
        )
        assert SentinelRedis(parse_server(f"{url}{OPTIONS}")).target == ("127.0.0.1", 1)
        with pytest.raises(EnvironmentLacking, match=rf"{where}: NOAUTH .*: \?sentinel_password=\$NAME"):
            run(sentinel_plan(url))
        with pytest.raises(EnvironmentLacking, match=r"127.0.0.1:\d+: Error 111 connecting to 127.0.0.1:1"):
            run(sentinel_plan(f"{url}{OPTIONS}"))  # the sentinel answers, and its primary does not
        monkeypatch.setenv(SENTINEL_VARIABLE, "wrong")
        with pytest.raises(EnvironmentLacking, match=f"{where}: WRONGPASS"):
            run(sentinel_plan(f"{url}{OPTIONS}"))


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["redis-token", "redis-py-asyncio-lock"])
def test_a_lock_runs_with_sentinels_that_have_a_password_of_their_own(
    sentinel_password: None, tmp_path: Path, lock: str
) -> None:
    (tmp_path / "data").mkdir()
    with sentinel_setup(tmp_path / "data", PASSWORDS) as secured:
        with pytest.raises(EnvironmentLacking, match="Authentication required"):
            run(sentinel_plan(f"{secured.url}{OPTIONS}"))  # the password of the servers is another one
        url = secured.url.replace("//", f"//:${VARIABLE}@")
        plan = sentinel_plan(f"{url}{OPTIONS}", lock=lock, clients=2, ttl=1.0, hold=0.1, time_limit=3.0)
        result = run(plan, store=tmp_path / "store")
    assert result.document["stats"]["acquires_ok"] > 1, result.document["summary"]
    assert result.document["cluster"]["addresses"] == [secured.url]
    assert "left_behind" not in result.document["cluster"]
    assert leaks(tmp_path / "store") == []


def failed_over(setup: SentinelSetup, tmp_path: Path, command: str) -> Result:
    hook = Hook(command=command, observe=setup.named_primary, heal=setup.primary.start)
    plan = sentinel_plan(
        setup.url, clients=3, ttl=7.0, hold=5.0, time_limit=24.0,
        faults=(FaultSpec("failover", on="acquire", for_=8.0),), hooks={"failover": hook},
    )  # fmt: skip
    return run(plan, store=tmp_path)


@pytest.mark.slow
def test_a_failover_loses_the_lock(setup: SentinelSetup, tmp_path: Path) -> None:
    result = failed_over(setup, tmp_path, setup.lose_primary)
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation
    assert result.verdicts["mutual-exclusion"].valid is False, result.document["summary"]
    assert result.document["cluster"]["addresses"] == [setup.url]
    assert "left_behind" not in result.document["cluster"], result.document["cluster"]
    assert keys_at(setup.replica) == keys_at(setup.primary) == ""
    (injected,) = [op for op in result.history.nemesis("inject") if op.type == "ok"]
    assert str(setup.replica.port) in injected.value["observed"]["after"]["output"]


@pytest.mark.slow
def test_a_failover_that_does_nothing_is_without_effect(setup: SentinelSetup, tmp_path: Path) -> None:
    result = failed_over(setup, tmp_path, "true")
    assert result.verdicts["faults"].valid is None
    assert result.verdicts["mutual-exclusion"].valid is True
    assert result.exit_status == UNKNOWN
