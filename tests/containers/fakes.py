"""Fake of the Docker engine's client."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker.errors import APIError, ImageNotFound

from harness.clusters.docker.images.images import Images


class FakeImage:
    id = "sha256:base"


class FakeEngine:
    """An engine that has some images and whose registry has none."""

    def __init__(self, *here: str) -> None:
        self.here = set(here)
        self.pulled: list[str] = []
        self.images = self

    def get(self, reference: str) -> FakeImage:
        if reference not in self.here:
            raise ImageNotFound("no such image")
        return FakeImage()

    def pull(self, reference: str) -> None:
        self.pulled.append(reference)
        raise APIError("500", explanation="dial tcp: lookup: no such host")


def images_of(*here: str) -> Images:
    return Images(FakeEngine(*here))  # type: ignore[arg-type]


def fake_tool(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Write a shell script as the program of this name into ``folder``, and hide all other programs that are not the
    system's."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
