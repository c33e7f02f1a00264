"""Build the Docker images of servers, clients and proxies on first use, and again only when their inputs change.

An image's tag is the hash of all its inputs. So one request tells whether it exists, and two versions of the project on
one machine have separate images.
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

from harness.errors import EnvironmentLacking

from . import base_image, golang, maven, wheelhouse
from .contexts import context_folder
from .runtimes import PROGRAM, RUNTIMES
from .server_releases import SCRATCH, SERVER_RELEASES
from .tools import NO_RELEASES, Releases, last

Progress = Callable[[str], None]

LEFT_OUT: Final = frozenset({"target", "node_modules", PROGRAM})
"""Output folders of manual builds, which are no input of an image."""
UPGRADE: Final = "upgrade"
"""Folder of the Dockerfile of servers that have several releases."""
SERVER_TOOLS: Final = "server-tools"
LEAVE_OUT: Final = "docker load it, check the name, or leave it out to have an image built from Debian's packages"
JARS: Final = {"hazelcast": maven.HAZELCAST}
"""Maven artifacts of the servers that Debian does not package."""
GO_PACKAGES: Final = {
    "consul": "github.com/hashicorp/consul",
    "kubernetes": "k8s.io/kubernetes/cmd/kube-apiserver",
    "nats": "github.com/nats-io/nats-server/v2",
}
"""Go packages of the servers that Debian does not package; the image's folder has a module that requires them."""
LINKER_FLAGS: Final = {"kubernetes": "-s -w -X k8s.io/component-base/version.gitVersion=v1.33.4"}
"""A Go package that is not built by its own makefile does not know its release."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image that can be built. The tag depends on ``inputs`` only; ``fill`` adds files to the build context that are
    not in the Dockerfile's folder. ``prefix`` begins the tag."""

    name: str
    base: str
    inputs: Mapping[str, bytes]
    fill: Callable[[Path], None]
    prefix: str = ""

    @property
    def tag(self) -> str:
        return f"lock-harness/{self.name}:{self.prefix}{fingerprint(self.inputs)}"


def fingerprint(inputs: Mapping[str, bytes]) -> str:
    """12 hex digits of SHA-256 over names and contents; the order does not matter."""
    digest = hashlib.sha256()
    for name in sorted(inputs):
        digest.update(f"{name}\0{len(inputs[name])}\0".encode())
        digest.update(inputs[name])
    return digest.hexdigest()[:12]


def quiet(line: str) -> None:
    """No-op progress callback."""


class Images:
    """Images on one engine, built on demand.

    A method that returns a reference may take minutes the first time, and reports lines to ``progress``. It raises
    :class:`EnvironmentLacking`, with the last lines of output, if something is missing or fails.
    """

    def __init__(self, engine: docker.DockerClient, progress: Progress = quiet) -> None:
        self._engine = engine
        self._progress = progress

    def server(self, name: str) -> str:
        """Image of a family's servers, such as ``redis`` (Redis and Sentinel)."""
        return self._made(self.server_recipe(name))

    def server_tools(self) -> str:
        """Image of what is mounted into the containers of servers."""
        return self._made(self.server_recipe(SERVER_TOOLS))

    def server_release(self, release: str) -> str:
        """Image of a release in :data:`.server_releases.SERVER_RELEASES`."""
        return self._made(self.release_recipe(release))

    def with_releases(self, base: str, releases: Sequence[str], programs: Mapping[str, str]) -> str:
        """Image of servers that also has other releases: each in a folder ``/releases/NAME``.

        ``programs`` are names of programs as they are called, by their names in the files of a release.
        """

        def fill(context: Path) -> None:
            for release in releases:
                folder = context / "releases" / release
                folder.mkdir(parents=True)
                self._progress(f"fetching {release}")
                SERVER_RELEASES[release].fill(folder)
                for name, called in programs.items():
                    (folder / name).rename(folder / called).chmod(0o755)

        sources = {f"release {release}": SERVER_RELEASES[release].source.encode() for release in releases}
        inputs = {**self._inputs(UPGRADE, base), **sources, "programs": repr(sorted(programs.items())).encode()}
        return self._made(Recipe(UPGRADE, base, inputs, fill))

    def client(self, requirements: Sequence[str] = (), runtime: str = "", releases: Releases = NO_RELEASES) -> str:
        """Return the image of clients, the resource and the helper: Python with this project.

        ``requirements`` are the distributions that a lock needs beside redis (see
        :func:`.requirements.requirements_of`). ``runtime`` is the runtime of the lock's program: one of
        :data:`.runtimes.RUNTIMES`, or an image of the user's. ``releases`` are versions of libraries that the program
        is built with in the place of its own.
        """
        if runtime in RUNTIMES:
            self._made(self.runtime_recipe(runtime, releases))
        elif runtime:
            self.ensure(runtime, "docker build or docker load it: it is the runtime that the lock's adapter names")
        return self._made(self.client_recipe(requirements, runtime, releases))

    def toxiproxy(self) -> str:
        """Image of the proxy that damages links. It runs as user ``nobody``; its API listens on port 8474."""
        return self._made(self.toxiproxy_recipe())

    def ensure(self, reference: str, advice: str = LEAVE_OUT) -> str:
        """Return an image that the user named, pulling it if it is missing; ``advice`` ends the error message."""
        with _engine_errors():
            if base_image.present(self._engine, reference):
                return reference
        self._progress(f"pulling {reference}")
        try:
            self._engine.images.pull(reference)
        except (DockerException, RequestException) as error:
            raise EnvironmentLacking(
                f"the image {reference} is not present and cannot be pulled ({base_image.explanation(error)}): {advice}"
            ) from error
        return reference

    def server_recipe(self, name: str) -> Recipe:
        """Return the recipe of a server image: its Dockerfile, the other files of that folder, and the server's jar or
        Go program if it has one."""
        inputs, artifact, package = self._inputs(name, self._base), JARS.get(name), GO_PACKAGES.get(name)

        def fill(context: Path) -> None:
            shutil.copytree(context_folder(name), context, dirs_exist_ok=True)
            if artifact is not None:
                self._progress(f"fetching {artifact}")
                maven.fetch(artifact, context / f"{name}.jar")
            if package is not None:
                self._progress(f"compiling {package}, which takes minutes the first time")
                golang.compile_go(context_folder(name), context / name, package, LINKER_FLAGS.get(name, ""))

        if artifact is not None:
            inputs["artifact"] = artifact.encode()
        if name in LINKER_FLAGS:
            inputs["linker flags"] = LINKER_FLAGS[name].encode()
        return Recipe(name, self._base, inputs, fill)

    def release_recipe(self, release: str) -> Recipe:
        found = SERVER_RELEASES[release]

        def fill(context: Path) -> None:
            self._progress(f"fetching {release}")
            found.fill(context)

        base = found.base or self._base
        inputs = {**self._inputs(found.folder, base), "source": found.source.encode()}
        return Recipe(found.folder, base, inputs, fill, f"{release}-")

    def runtime_recipe(self, name: str, releases: Releases = NO_RELEASES) -> Recipe:
        """Return the recipe of an image with a runtime and the project's programs for it. The programs are built on
        this machine, whose package managers are configured."""
        stated = [f"{library} {version}" for library, version in sorted(releases.items())]

        def fill(context: Path) -> None:
            self._progress(" with ".join([f"building the locks for {name}", *stated]))
            RUNTIMES[name].build(context_folder(name), context / PROGRAM, releases)

        inputs = self._inputs(name, self._base)
        return Recipe(name, self._base, {**inputs, "releases": "\n".join(stated).encode()} if stated else inputs, fill)

    def client_recipe(
        self, requirements: Sequence[str] = (), runtime: str = "", releases: Releases = NO_RELEASES
    ) -> Recipe:
        project = wheelhouse.sources()
        base = self.runtime_recipe(runtime, releases).tag if runtime in RUNTIMES else runtime or self._base

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
        """Return True if the engine has the image."""
        with _engine_errors():
            return base_image.present(self._engine, recipe.tag) is not None

    @cached_property
    def _base(self) -> str:
        with _engine_errors():
            return base_image.base(self._engine, self._progress)

    def _inputs(self, name: str, base: str) -> dict[str, bytes]:
        folder = context_folder(name)
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)}
        # The id, since a base image may be updated under the same name.
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


def _files(folder: Path) -> list[Path]:
    """Input files of an image; a program's tests are left out."""
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
    """Raise errors of the engine as EnvironmentLacking."""
    try:
        yield
    except (DockerException, RequestException) as error:
        where = os.environ.get("DOCKER_HOST", "its default address")
        raise EnvironmentLacking(
            f"the Docker engine at {where} failed: {base_image.explanation(error)} (see: harness doctor)"
        ) from error
