"""The catalogue states the library versions that the programs in other languages are built with."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from xml.etree import ElementTree

import pytest

from harness.clusters.docker.images.contexts import context_folder
from harness.clusters.docker.images.runtimes import RUNTIMES
from harness.lock_impls import catalogue
from harness.lock_impls.base import LockInfo

MAVEN = {"m": "http://maven.apache.org/POM/4.0.0"}
BESIDE = {
    "bsm-redislock": ["github.com/redis/go-redis/v9"],
    "node-redlock": ["ioredis"],
    "redsync": ["github.com/redis/go-redis/v9"],
    "sesamecare-redlock": ["ioredis"],
}
"""Further libraries of a lock, whose version its docstring also states."""


def _project() -> ElementTree.Element:
    return ElementTree.parse(context_folder("java") / "pom.xml").getroot()


def _java() -> dict[str, str]:
    versions = {one.tag.partition("}")[2]: str(one.text) for one in _project().iterfind("m:properties/*", MAVEN)}
    pinned = {}
    for one in _project().iterfind(".//m:dependency", MAVEN):
        version = one.findtext("m:version", "", MAVEN)
        pinned[one.findtext("m:artifactId", "", MAVEN)] = versions.get(version.strip("${}"), version)
    return pinned


def _go(module: str = "go") -> dict[str, str]:
    return dict(re.findall(r"^\t(\S+) v(\S+)", (context_folder(module) / "go.mod").read_text(), re.MULTILINE))


def _node() -> dict[str, str]:
    return dict(json.loads((context_folder("node") / "package.json").read_text())["dependencies"])


def _php() -> dict[str, str]:
    """Read the minor versions: Debian replaces a package by the next patch version."""
    dockerfile = (context_folder("php") / "Dockerfile").read_text()
    packages = {"symfony/lock": "php-symfony-lock", "malkusch/lock": "php-malkusch-lock"}
    return {name: re.findall(rf"'{package}=(\S+)\.\*'", dockerfile)[0] for name, package in packages.items()}


PINNED: Mapping[str, Callable[[], dict[str, str]]] = {
    "java": _java,
    "go": _go,
    "client-go": partial(_go, "client-go"),
    "node": _node,
    "php": _php,
}
OTHERS = [info for info in catalogue.infos() if info.runtime]


@pytest.mark.parametrize("info", OTHERS, ids=lambda info: info.name)
def test_stated_version_is_the_pinned_one(info: LockInfo) -> None:
    pinned = PINNED[info.runtime]()
    name, version = info.library.split(" ")
    assert f"{version}.".startswith(f"{pinned[name]}.")
    text = str(sys.modules[catalogue.find(info.name).__module__].__doc__)
    for library in (name, *BESIDE.get(info.name, [])):
        assert re.search(rf"\b{re.escape(pinned[library])}\b", text), library


def test_each_language_has_a_lock() -> None:
    assert {info.runtime for info in OTHERS} == set(RUNTIMES)


def test_java_versions_are_exact() -> None:
    for one in _project().iter(f"{{{MAVEN['m']}}}version"):
        assert one.text
        assert one.text.startswith("${") or not set(one.text) & set("[](),LR"), one.text
