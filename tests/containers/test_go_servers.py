"""Servers that are compiled from Go packages on this machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli import doctor
from harness.clusters.docker.images import base_image, golang
from harness.clusters.docker.images.contexts import context_folder
from harness.clusters.docker.images.images import GO_PACKAGES, LINKER_FLAGS
from harness.errors import EnvironmentLacking
from tests.containers.fakes import fake_tool, images_of


def test_the_release_is_the_one_in_the_module_and_decides_the_tag() -> None:
    module = (context_folder("consul") / "go.mod").read_text()
    assert "\tgithub.com/hashicorp/consul v1.15.4 " in module, "later release lines are not under the MPL"
    assert f"\ntool {GO_PACKAGES['consul']}\n" in module
    recipe = images_of(base_image.PUBLISHED).server_recipe("consul")
    assert recipe.inputs["go.mod"] == module.encode()


def test_the_api_server_says_the_release_in_the_module() -> None:
    module = (context_folder("kubernetes") / "go.mod").read_text()
    (release,) = re.findall(r"^\tk8s.io/kubernetes (v[\d.]+) ", module, re.MULTILINE)
    assert LINKER_FLAGS["kubernetes"].endswith(f".gitVersion={release}")
    assert f"tool {GO_PACKAGES['kubernetes']}\n" in module
    assert images_of(base_image.PUBLISHED).server_recipe("kubernetes").inputs["linker flags"]


def test_the_package_is_compiled_in_a_copy_of_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool("go", tmp_path, monkeypatch, 'test -e go.sum && echo "$@" >"$4"')
    program = tmp_path / "consul"
    golang.compile_go(context_folder("consul"), program, GO_PACKAGES["consul"])
    assert program.read_text() == f"build -trimpath -o {program} github.com/hashicorp/consul\n"


def test_without_go_the_error_names_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacking, match="apt-get install golang"):
        images_of(base_image.PUBLISHED).server("consul")
    findings = doctor._images(images_of(base_image.PUBLISHED), base_image.PUBLISHED)
    found = next(finding for finding in findings if finding.name == "consul image")
    assert (found.state, found.install) == ("optional", golang.GO.install)
