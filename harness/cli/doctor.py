"""``harness doctor``: check whether this machine can run real clusters, and name the command for what is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import docker
import typer
from docker.errors import DockerException
from requests.exceptions import RequestException
from rich.console import Console
from rich.table import Table

from harness.clusters import kinds
from harness.clusters.docker.containers.engine import client_of_engine
from harness.clusters.docker.images import base_image, maven
from harness.clusters.docker.images.contexts import context_folder, has_image
from harness.clusters.docker.images.golang import GO
from harness.clusters.docker.images.images import GO_PACKAGES, JARS, Images, Recipe
from harness.clusters.docker.images.runtimes import RUNTIMES
from harness.clusters.docker.images.tools import Tool
from harness.errors import MISSING, VALID, EnvironmentLacking

from .doctor_trial import try_run
from .options import QuietOption, single_command

RequirementState = Literal["ok", "missing", "optional"]

PATIENCE_S: Final = 5.0
"""Time limit in seconds for each request to the engine, also when it asks a registry."""
OLDEST_API: Final = (1, 40)
"""Docker 19.03; older engines are not known to work."""
COLOURS: Final = {"ok": "green", "missing": "red", "optional": "yellow"}
NEWER_GO: Final = "apt-get install -t bookworm-backports golang-go"
"""Debian 12's own is 1.19."""
QUEUE: Final = Path("/proc/net/netfilter/nfnetlink_queue")


@dataclass(frozen=True, slots=True)
class RequirementFinding:
    """Finding about one requirement.

    ``missing`` prevents runs on docker; ``optional`` is absent, but not needed by all runs. ``install`` is the command
    that fixes it; empty if nothing needs fixing.
    """

    name: str
    state: RequirementState
    seen: str
    install: str = ""


def doctor(console: Console, *, quiet: bool = False) -> int:
    """Print the findings; return 0 if runs on docker have all they need, else 4. With ``quiet``, print in one word
    whether they have."""
    findings = examine()
    lacking = any(finding.state == "missing" for finding in findings)
    if quiet:
        console.print("not possible" if lacking else "ready")
        return MISSING if lacking else VALID
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold")
    for finding in findings:
        table.add_row(f"[{COLOURS[finding.state]}]{finding.state}[/]", finding.name, finding.seen)
    console.print(table)
    for finding in findings:
        if finding.install:
            # Outside the table, because a command that is broken over two lines cannot be copied.
            console.print(f"{finding.name}: {finding.install}", soft_wrap=True, markup=False, highlight=False)
    console.print("runs on docker: " + ("not possible until the missing items are installed" if lacking else "ready"))
    return MISSING if lacking else VALID


def examine() -> list[RequirementFinding]:
    """Return all findings; each requirement comes after those it needs. Takes some seconds, and leaves nothing behind:
    the containers that it starts are removed."""
    findings = [_python(), _sdk()]
    try:
        engine = client_of_engine(int(PATIENCE_S))
        try:
            return [*findings, *_with_engine(engine, engine.version())]
        finally:
            engine.close()
    except (DockerException, RequestException) as error:
        return [*findings, _no_engine(error)]
    except EnvironmentLacking as error:
        return [*findings, RequirementFinding("Docker engine", "missing", str(error))]


def _python() -> RequirementFinding:
    seen = platform.python_version()
    if importlib.util.find_spec("pip") is None:
        return RequirementFinding("Python", "missing", f"{seen}, without pip", f"{sys.executable} -m ensurepip")
    return RequirementFinding("Python", "ok", seen)


def _sdk() -> RequirementFinding:
    return RequirementFinding("Docker SDK", "ok", metadata.version("docker"))


def _no_engine(error: Exception) -> RequirementFinding:
    where = os.environ.get("DOCKER_HOST", "its default socket")
    seen = f"no engine answers at {where}: {base_image.explanation(error)}"
    if "Permission denied" in str(error):
        return RequirementFinding("Docker engine", "missing", seen, "usermod -aG docker $USER, then log in again")
    install = "apt-get install docker.io"
    if "DOCKER_HOST" in os.environ:
        install += ", or point DOCKER_HOST to an engine that runs"
    return RequirementFinding("Docker engine", "missing", seen, install)


def _with_engine(engine: docker.DockerClient, version: dict[str, Any]) -> Iterator[RequirementFinding]:
    yield _engine(version)
    yield _clocks(version)
    yield _queue()
    registry = _registry(engine)
    yield registry
    here = next((name for name in (base_image.PUBLISHED, base_image.OWN) if base_image.present(engine, name)), None)
    can_make = shutil.which("debootstrap", path=base_image.PROGRAMS) is not None and os.geteuid() == 0
    yield _base(here, registry.state == "ok", can_make)
    images = Images(engine)
    yield from _images(images, here)
    yield _trial(engine, images, here)


def _engine(version: dict[str, Any]) -> RequirementFinding:
    api = str(version.get("ApiVersion", "0.0"))
    where = os.environ.get("DOCKER_HOST", "its default socket")
    seen = f"{version.get('Version')}, API {api}, {version.get('Os')}/{version.get('Arch')}, at {where}"
    if tuple(map(int, api.split("."))) < OLDEST_API:
        return RequirementFinding("Docker engine", "missing", f"{seen}: too old", "apt-get install docker.io")
    return RequirementFinding("Docker engine", "ok", seen)


def _clocks(version: dict[str, Any]) -> RequirementFinding:
    """Check the processor: clock faults write machine code into the processes of containers."""
    kernel, arch = version.get("KernelVersion", ""), version.get("Arch", "")
    if arch in ("amd64", "x86_64"):
        return RequirementFinding("clock faults", "ok", f"kernel {kernel}, {arch}")
    return RequirementFinding(
        "clock faults", "optional", f"need an x86-64 engine; this is {arch or 'unknown'}, kernel {kernel}"
    )


def _queue() -> RequirementFinding:
    if not os.environ.get("DOCKER_HOST", "unix:").startswith("unix:"):
        return RequirementFinding(
            "latency between hosts", "optional", "not checked, because the engine is on another machine"
        )
    if QUEUE.exists():
        return RequirementFinding("latency between hosts", "ok", "NFQUEUE is in the kernel")
    seen = f"{QUEUE} does not exist; the kernel may load NFQUEUE on first use"
    return RequirementFinding("latency between hosts", "optional", seen, "modprobe nfnetlink_queue")


def _registry(engine: docker.DockerClient) -> RequirementFinding:
    """Request the base image's description from its registry, as the first step of a pull does. Nothing is pulled."""
    try:
        engine.images.get_registry_data(base_image.PUBLISHED)
    except (DockerException, RequestException) as error:
        return RequirementFinding("registry", "optional", f"{base_image.PUBLISHED}: {base_image.explanation(error)}")
    return RequirementFinding("registry", "ok", f"{base_image.PUBLISHED} can be pulled")


def _base(here: str | None, can_pull: bool, can_make: bool) -> RequirementFinding:
    name = "base image"
    if here:
        return RequirementFinding(name, "ok", f"{here} is present")
    if can_pull:
        return RequirementFinding(name, "ok", f"{base_image.PUBLISHED} will be pulled on first use")
    if can_make:
        return RequirementFinding(
            name, "ok", f"{base_image.OWN} will be built by debootstrap on first use, which takes 30 s"
        )
    if os.geteuid() != 0:
        return RequirementFinding(
            name,
            "missing",
            "not present and cannot be pulled; to build it, debootstrap needs root",
            "run once with sudo",
        )
    return RequirementFinding(
        name,
        "missing",
        "not present and cannot be pulled; to build it, debootstrap must be installed",
        base_image.INSTALL,
    )


def _images(images: Images, base: str | None) -> Iterator[RequirementFinding]:
    # Without the base image the tag is unknown, and asking for it would make the base image.
    families = sorted({kind.service for kind in kinds.own_kinds() if kind.docker and has_image(kind.service)})
    recipes = {name: partial(images.server_recipe, name) for name in families} | {"client": images.client_recipe}
    recipes |= {name: partial(images.runtime_recipe, name) for name in RUNTIMES}
    for name, recipe in recipes.items():
        try:
            present = images.present(recipe()) if base else False
        except EnvironmentLacking as error:
            yield RequirementFinding(f"{name} image", "missing", str(error))
            continue
        tool = _tool(name)
        if tool and not present and shutil.which(tool.program) is None:
            # Only one kind of cluster, or locks in one language, need this image.
            yield RequirementFinding(
                f"{name} image", "optional", f"is built with {tool.name}, which is not installed", tool.install
            )
            continue
        yield RequirementFinding(f"{name} image", "ok", "present" if present else "will be built on first use")
    try:
        yield _toxiproxy(images, images.toxiproxy_recipe())
    except EnvironmentLacking as error:
        yield RequirementFinding("toxiproxy image", "missing", str(error))


def _trial(engine: docker.DockerClient, images: Images, base: str | None) -> RequirementFinding:
    name = "trial"
    if not base:
        return RequirementFinding(
            name, "optional", "not tried, since there is no image yet: run doctor again after a run"
        )
    client = images.client_recipe()
    found = try_run(engine, base, client.tag if images.present(client) else "")
    if found.failed:
        return RequirementFinding(name, "missing", found.failed, found.advice)
    return RequirementFinding(name, "ok", found.seen)


def _tool(image: str) -> Tool | None:
    """Return the tool with which an image is built on this machine, if there is one."""
    if image in JARS:
        return maven.MAVEN
    if image in GO_PACKAGES:
        return GO
    runtime = RUNTIMES.get(image)
    return runtime.tool if runtime else None


def _toxiproxy(images: Images, recipe: Recipe) -> RequirementFinding:
    name = "toxiproxy image"
    if images.present(recipe):
        return RequirementFinding(name, "ok", "present")
    go = _go_version()
    if go is None:
        return RequirementFinding(name, "missing", "is compiled on this machine, and Go is not installed", GO.install)
    wanted = re.search(r"^go (\d+)\.(\d+)", (context_folder("toxiproxy") / "go.mod").read_text(), re.MULTILINE)
    if wanted and go < (need := (int(wanted[1]), int(wanted[2]))):
        return RequirementFinding(
            name, "missing", f"needs Go {need[0]}.{need[1]}, and this is {go[0]}.{go[1]}", NEWER_GO
        )
    return RequirementFinding(name, "ok", f"will be compiled on first use by Go {go[0]}.{go[1]}")


def _go_version() -> tuple[int, int] | None:
    program = shutil.which("go")
    if program is None:
        return None
    output = subprocess.run([program, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", output)
    return (int(found[1]), int(found[2])) if found else None


def as_json(findings: list[RequirementFinding]) -> dict[str, Any]:
    """Return what a bug report needs: versions, the platform, and each finding."""
    return {
        "schema": 1,
        "harness": metadata.version("lock-harness"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "ready": not any(finding.state == "missing" for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }


def doctor_command(
    quiet: QuietOption = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document, for a bug report.")] = False,
) -> None:
    """Check what this machine has for runs on docker, and show the command that installs what is missing."""
    if not json_output:
        raise typer.Exit(doctor(Console(highlight=False), quiet=quiet))
    document = as_json(examine())
    typer.echo(json.dumps(document, indent=2))
    raise typer.Exit(VALID if document["ready"] else MISSING)


app = single_command(doctor_command)
