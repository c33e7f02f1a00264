"""A requirement chooses the release that the program of a lock in another language is built with."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.docker.images import golang, npm
from harness.clusters.docker.images.contexts import context_folder
from harness.environments.interpreters import container_requirements
from harness.environments.programs import published_releases, required_releases
from harness.errors import EnvironmentLacking, UsageError
from harness.plan import Plan
from harness.run.processes.client_contents import client_versions
from harness.studies.release_trials import Releases
from tests.containers.fakes import fake_tool

REDSYNC = "github.com/go-redsync/redsync/v4"


@pytest.mark.parametrize(
    ("lock", "required", "library"),
    [
        ("redsync", "redsync==4.12.1", REDSYNC),
        ("redsync", "go-redsync-redsync==4.12.1", REDSYNC),
        ("go-etcd-mutex", "etcd-client==3.5.9", "go.etcd.io/etcd/client/v3"),
        ("node-redlock", "redlock==5.0.0-beta.1", "redlock"),
        ("sesamecare-redlock", "sesamecare-oss-redlock==1.3.1", "@sesamecare-oss/redlock"),
        ("redisson-lock", "redisson==3.17.0", "org.redisson:redisson"),
    ],
)
def test_a_requirement_names_a_library_by_the_last_parts_of_its_path(lock: str, required: str, library: str) -> None:
    assert required_releases(lock, [required]) == {library: required.partition("==")[2]}
    assert container_requirements(lock, [required]) == (), "no distribution of Python has that name"
    assert client_versions(Plan(lock=lock, requires=(required,)), ())[library] == required.partition("==")[2]


@pytest.mark.parametrize(
    ("required", "message"),
    [
        ("redsnyc==4.12.1", "unknown library of the lock programs in go 'redsnyc': did you mean redsync"),
        ("redsync>=4.12.1", "expected one version, such as redsync=="),
        ("redsync", "expected one version"),
    ],
)
def test_a_requirement_that_no_program_can_have_is_refused(required: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        container_requirements("redsync", [required])


def test_a_lock_in_python_has_no_program() -> None:
    assert required_releases("redis-token", ["redis==5.2.1"]) == {}


def test_trials_of_a_program_s_releases_run_in_containers() -> None:
    plan = Releases("redlock", print).plan_for(Plan(lock="node-redlock"), "4.2.0")
    assert (plan.cluster, plan.requires) == ("docker", ("redlock==4.2.0",))


def test_another_major_version_of_a_go_module_has_another_path() -> None:
    assert golang.module_path(REDSYNC, "4.8.0") == REDSYNC
    assert golang.module_path(REDSYNC, "1.4.2") == "github.com/go-redsync/redsync"
    assert golang.module_path("github.com/bsm/redislock", "2.0.0") == "github.com/bsm/redislock/v2"


def test_a_major_version_without_a_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{REDSYNC} 3.0.0: the lock program is written for v4"):
        golang.compile_go(context_folder("go"), tmp_path / "locks", releases={REDSYNC: "3.0.0"})


def test_npm_installs_the_required_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("npm", tmp_path, monkeypatch, "mkdir node_modules; echo $* >node_modules/arguments")
    npm.install(context_folder("node"), tmp_path / "target", {"redlock": "4.2.0"})
    arguments = (tmp_path / "target" / "node_modules" / "arguments").read_text().split()
    assert (arguments[0], arguments[-1]) == ("install", "redlock@4.2.0")


def test_a_version_that_cannot_be_built_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("go", tmp_path, monkeypatch, "echo no such version >&2; exit 1")
    with pytest.raises(EnvironmentLacking, match=rf"compile locks with {REDSYNC}@v4.99.0(?s:.*)no such version"):
        golang.compile_go(context_folder("go"), tmp_path / "locks", releases={REDSYNC: "4.99.0"})


def test_published_releases_keep_the_spelling_of_their_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("npm", tmp_path, monkeypatch, """echo '["5.0.0-beta.2", "4.2.0", "5.0.0-beta2", "next"]'""")
    assert [str(one) for one in published_releases("node-redlock", "redlock")] == ["4.2.0", "5.0.0-beta.2"]
