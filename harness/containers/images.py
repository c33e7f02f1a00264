"""The images of real hosts, built on first use and again only when something that goes into them has changed.

A tag is the hash of all inputs, so that whether an image is there is one question to the engine, and two versions of
the project on one machine do not take each other's images.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from ..errors import EnvironmentLacking
from . import base_image, golang, maven, wheelhouse
from .runtimes import PROGRAM, RUNTIMES
from .tools import last

Progress = Callable[[str], None]

SCRATCH: Final = "scratch"
CONTEXTS: Final = (wheelhouse.ROOT / "docker", Path(__file__).parent / "docker")
"""Where the Dockerfiles are: in a checkout, or beside this file in an installed distribution."""
LEFT_OUT: Final = frozenset({"target", "node_modules", PROGRAM})
"""What builds by hand leave behind in the folder of a program."""
LEAVE_OUT: Final = "docker load it, check the name, or leave it out to have an image built from Debian's packages"
JARS: Final = {"hazelcast": maven.HAZELCAST}
"""Servers that Debian does not package: what Maven calls them."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image that can be built. ``inputs`` is all that its tag depends on; ``fill`` puts into the context what is
    not a file of the Dockerfile's folder."""

    name: str
    base: str
    inputs: Mapping[str, bytes]
    fill: Callable[[Path], None]

    @property
    def tag(self) -> str:
        return f"lock-harness/{self.name}:{fingerprint(self.inputs)}"


def fingerprint(inputs: Mapping[str, bytes]) -> str:
    """12 hex digits of SHA-256 over names and contents, in whatever order they are given."""
    digest = hashlib.sha256()
    for name in sorted(inputs):
        digest.update(f"{name}\0{len(inputs[name])}\0".encode())
        digest.update(inputs[name])
    return digest.hexdigest()[:12]


def quiet(line: str) -> None:
    """The progress callback of those who do not want any."""


class Images:
    """What this engine can start containers from. Every method that returns a reference may take a minute the first
    time and says through ``progress``, a line at a time, what it is at.

    Each raises :class:`EnvironmentLacking` where something is missing or fails, with the last lines of what failed.
    """

    def __init__(self, engine: docker.DockerClient, progress: Progress = quiet) -> None:
        self._engine = engine
        self._progress = progress

    def server(self, name: str) -> str:
        """Servers of a family, such as ``redis``: Redis and Sentinel."""
        return self._made(self.server_recipe(name))

    def client(self, requirements: Sequence[str] = (), runtime: str = "") -> str:
        """Python with this project, for clients, the resource and the helper; ``requirements`` are the distributions
        that a lock needs beside redis (see :func:`.requirements.requirements_of`), ``runtime`` is what its program
        runs in: one of :data:`.runtimes.RUNTIMES`, or an image of the user's."""
        if runtime in RUNTIMES:
            self._made(self.runtime_recipe(runtime))
        elif runtime:
            self.ensure(runtime, "docker build or docker load it: it is the runtime that the lock's adapter names")
        return self._made(self.client_recipe(requirements, runtime))

    def toxiproxy(self) -> str:
        """The proxy that damages links; runs as nobody, and its API listens on port 8474 of all addresses."""
        return self._made(self.toxiproxy_recipe())

    def ensure(self, reference: str, advice: str = LEAVE_OUT) -> str:
        """An image that the user named: pulled unless it is here; ``advice`` is for when it cannot be."""
        with _engine_errors():
            if base_image.present(self._engine, reference):
                return reference
        self._progress(f"pulling {reference}")
        try:
            self._engine.images.pull(reference)
        except (DockerException, RequestException) as error:
            raise EnvironmentLacking(
                f"the image {reference} is not here and cannot be pulled ({base_image.explanation(error)}): {advice}"
            ) from error
        return reference

    def server_recipe(self, name: str) -> Recipe:
        """What goes into such an image beside its Dockerfile are the other files of that folder, and the jar of a
        server that comes as one."""
        inputs, artifact = self._inputs(name, self._base), JARS.get(name)

        def fill(context: Path) -> None:
            shutil.copytree(context_folder(name), context, dirs_exist_ok=True)
            if artifact is not None:
                self._progress(f"fetching {artifact}")
                maven.fetch(artifact, context / f"{name}.jar")

        if artifact is not None:
            inputs["artifact"] = artifact.encode()
        return Recipe(name, self._base, inputs, fill)

    def runtime_recipe(self, name: str) -> Recipe:
        """What runs locks in another language, and these: built on the host, whose clients know the registries."""

        def fill(context: Path) -> None:
            self._progress(f"building the locks for {name}")
            RUNTIMES[name].build(context_folder(name), context / PROGRAM)

        return Recipe(name, self._base, self._inputs(name, self._base), fill)

    def client_recipe(self, requirements: Sequence[str] = (), runtime: str = "") -> Recipe:
        project = wheelhouse.sources()
        base = self.runtime_recipe(runtime).tag if runtime in RUNTIMES else runtime or self._base

        def fill(context: Path) -> None:
            wheels = context / "wheels"
            shutil.copytree(wheelhouse.libraries(requirements, self._progress), wheels)
            (wheels / "project").mkdir()
            wheelhouse.pack(project, wheels / "project")

        inputs = {
            **self._inputs("client", base),
            **{f"project/{path}": data for path, data in project.items()},
            "version": wheelhouse.version().encode(),
            "libraries": wheelhouse.identity(requirements),
        }
        return Recipe("client", base, inputs, fill)

    def toxiproxy_recipe(self) -> Recipe:
        def fill(context: Path) -> None:
            self._progress("compiling toxiproxy")
            golang.compile_go(context_folder("toxiproxy"), context / "toxiproxy-server")

        return Recipe("toxiproxy", SCRATCH, self._inputs("toxiproxy", SCRATCH), fill)

    def present(self, recipe: Recipe) -> bool:
        """Whether the engine has the image already."""
        with _engine_errors():
            return base_image.present(self._engine, recipe.tag) is not None

    @cached_property
    def _base(self) -> str:
        with _engine_errors():
            return base_image.base(self._engine, self._progress)

    def _inputs(self, name: str, base: str) -> dict[str, bytes]:
        folder = context_folder(name)
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)}
        # The id, since a base may be renewed under its name, with fixes in it.
        identity = base if base == SCRATCH else base_image.present(self._engine, base) or base
        return {**files, "base": identity.encode()}

    def _made(self, recipe: Recipe) -> str:
        if self.present(recipe):
            return recipe.tag
        with tempfile.TemporaryDirectory(prefix="lock-harness-image-") as folder:
            context = Path(folder) / "context"
            context.mkdir()
            shutil.copy(context_folder(recipe.name) / "Dockerfile", context)
            recipe.fill(context)
            with _engine_errors():
                build(self._engine, context, recipe.tag, recipe.base, self._progress)
        return recipe.tag


def context_folder(name: str) -> Path:
    """The folder of an image's Dockerfile."""
    for parent in CONTEXTS:
        if (parent / name / "Dockerfile").is_file():
            return parent / name
    raise EnvironmentLacking(
        f"the Dockerfile of the {name} image is not here (looked in {' and '.join(map(str, CONTEXTS))}): clone the "
        f"project's repository and install from there, with pip install -e ."
    )


def _files(folder: Path) -> list[Path]:
    """What an image is made from: tests of a program are beside it and do not go in."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("_test.go"))
    return [path for path in paths if not LEFT_OUT.intersection(path.relative_to(folder).parts)]


def build(engine: docker.DockerClient, context: Path, tag: str, base: str, progress: Progress) -> None:
    """Build the Dockerfile in ``context`` with the engine's classic builder, which needs no client program.

    Raises:
        EnvironmentLacking: a step failed; the message has the last lines of the build's output.
    """
    name = tag.removeprefix("lock-harness/").partition(":")[0]
    output: list[str] = []
    failed = False
    try:
        for message in engine.api.build(
            path=str(context), tag=tag, buildargs={"BASE": base}, rm=True, forcerm=True, decode=True
        ):
            failed = failed or "errorDetail" in message
            for line in _lines(message):
                output.append(line)
                progress(f"{name} image: {line}")
    except APIError as error:  # the engine refused before the first step
        raise _build_failure(name, [*output, base_image.explanation(error)]) from error
    if failed:
        raise _build_failure(name, output)


def _lines(message: Mapping[str, str]) -> Iterable[str]:
    text = message.get("stream") or message.get("error") or ""
    return (line for line in text.splitlines() if line.strip())


def _build_failure(name: str, output: Sequence[str]) -> EnvironmentLacking:
    return EnvironmentLacking(f"the {name} image could not be built; the last lines of the build:\n{last(output)}")


@contextlib.contextmanager
def _engine_errors() -> Iterator[None]:
    """Turns an engine that does not answer into one clear message."""
    try:
        yield
    except (DockerException, RequestException) as error:
        where = os.environ.get("DOCKER_HOST", "its default address")
        raise EnvironmentLacking(
            f"the Docker engine at {where} failed: {base_image.explanation(error)} (harness doctor says more)"
        ) from error
