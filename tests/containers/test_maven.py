"""The jar of a server that Debian does not package."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import doctor
from harness.clusters.docker.images import base_image, images, maven
from harness.errors import EnvironmentLacking
from tests.containers.fakes import fake_tool, images_of


def test_the_jar_has_the_name_that_the_image_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("mvn", tmp_path, monkeypatch, "echo jar >some-server.jar")
    maven.fetch("some.group:some-server:1.0", tmp_path / "server.jar")
    assert (tmp_path / "server.jar").read_text() == "jar\n"


def test_errors_of_maven_are_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("mvn", tmp_path, monkeypatch, "echo no such artifact; exit 1")
    with pytest.raises(EnvironmentLacking, match=r"could not fetch a:b:1(?s:.*)no such artifact"):
        maven.fetch("a:b:1", tmp_path / "b.jar")


def test_without_maven_the_error_names_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacking, match="apt-get install maven"):
        images_of(base_image.PUBLISHED).server("hazelcast")


def test_a_tag_changes_with_the_version_of_the_jar_and_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    made = images_of(base_image.PUBLISHED)
    before = [made.server_recipe(name).tag for name in ("hazelcast", "redis")]
    monkeypatch.setattr(images, "JARS", {"hazelcast": "com.hazelcast:hazelcast:0.1"})
    after = [made.server_recipe(name).tag for name in ("hazelcast", "redis")]
    assert [a != b for a, b in zip(before, after, strict=True)] == [True, False]


def test_doctor_says_that_maven_is_wanted_and_that_all_else_runs_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> doctor.RequirementFinding:
        findings = doctor._images(images_of(base_image.PUBLISHED), base_image.PUBLISHED)
        return next(finding for finding in findings if finding.name == "hazelcast image")

    monkeypatch.setenv("PATH", str(tmp_path))
    assert (found().state, found().install) == ("optional", maven.MAVEN.install)
    fake_tool("mvn", tmp_path, monkeypatch, "exit 0")
    assert (found().state, found().install) == ("ok", "")
