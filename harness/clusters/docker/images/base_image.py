"""Base image of all others, Debian 12: found on the engine, pulled from a registry, or made here by debootstrap."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import docker
from docker.errors import APIError, DockerException, ImageNotFound

from harness.errors import EnvironmentLacking

Progress = Callable[[str], None]

PUBLISHED: Final = "debian:bookworm-slim"
OWN: Final = "lock-harness/base:bookworm"
SUITE: Final = "bookworm"
LABEL: Final = "io.lock-harness"
APT: Final = Path("/etc/apt")
SLIM: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists")
"""Folders left out of the image, since no container needs them: half of what debootstrap installs."""
INSTALL: Final = "apt-get install debootstrap"
PROGRAMS: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
"""Search path for debootstrap, which Debian installs in a folder that only root has in its PATH."""


@dataclass(frozen=True, slots=True)
class Source:
    """A package archive, as in apt's ``sources.list``."""

    uri: str
    suite: str
    components: tuple[str, ...]

    @property
    def line(self) -> str:
        return f"deb {self.uri} {self.suite} {' '.join(self.components)}"


def present(engine: docker.DockerClient, reference: str) -> str | None:
    """Return the id of an image on this engine, ``None`` if it is missing."""
    try:
        return engine.images.get(reference).id
    except ImageNotFound:
        return None


def base(engine: docker.DockerClient, progress: Progress) -> str:
    """Make sure that the base image is on this engine, and return its reference.

    Raises:
        EnvironmentLacking: the image is missing, and can neither be pulled nor made.
    """
    for reference in (PUBLISHED, OWN):
        if present(engine, reference):
            return reference
    progress(f"pulling {PUBLISHED}")
    try:
        engine.images.pull(PUBLISHED)
        return PUBLISHED
    except (APIError, DockerException) as error:
        reason = explanation(error)
        progress(f"{PUBLISHED} cannot be pulled ({reason}); making it with debootstrap")
    return make(engine, progress, OWN, f"{PUBLISHED} is not present and cannot be pulled ({reason})")


def explanation(error: BaseException) -> str:
    """Reason for an engine's failure in one line: its own message, or the operating system's about the connection."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__context__
    text = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return " ".join(str(text).split())[:200]


def make(engine: docker.DockerClient, progress: Progress, reference: str, why: str) -> str:
    """Make Debian from this machine's own package sources and import it as ``reference``.

    Raises:
        EnvironmentLacking: debootstrap is missing, fails, or may not run; ``why`` begins the message.
    """
    program = shutil.which("debootstrap", path=PROGRAMS)
    if program is None:
        raise EnvironmentLacking(f"{why}, and debootstrap, which makes it from packages, is not installed: {INSTALL}")
    if os.geteuid() != 0:
        raise EnvironmentLacking(f"{why}, and debootstrap needs root: run this once as root (sudo)")
    archives = debian_archives(apt_sources())
    with tempfile.TemporaryDirectory(prefix="lock-harness-base-") as folder:
        root = Path(folder) / "root"
        _debootstrap(program, root, archives, progress)
        progress(f"importing {reference}")
        _import(engine, root, reference)
    return reference


def _debootstrap(program: str, root: Path, archives: tuple[Source, ...], progress: Progress) -> None:
    mirror = next((source.uri for source in archives if source.suite == SUITE), None)
    # A container needs certificates for such a mirror, and the minimal Debian has none.
    secure = ["--include=ca-certificates"] if mirror and mirror.startswith("https:") else []
    # In mounts of its own: one interrupted half-way must not leave /proc mounted in a folder about to be deleted.
    command = ["unshare", "--mount", program, "--variant=minbase", *secure, SUITE, str(root)]
    command += [mirror] if mirror else []  # debootstrap knows a default
    progress("debootstrap: " + shlex.join(command[3:]))
    last: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            progress(f"debootstrap: {line.strip()}")
            last = [*last[-9:], line.rstrip()]
    if running.returncode:
        raise EnvironmentLacking("debootstrap could not make the base image; it says:\n" + "\n".join(last))
    if archives:
        (root / "etc/apt/sources.list").write_text("".join(f"{source.line}\n" for source in archives))


def _import(engine: docker.DockerClient, root: Path, reference: str) -> None:
    leave_out = [f"--exclude=./{folder}/*" for folder in SLIM]
    repository, _, tag = reference.rpartition(":")
    with subprocess.Popen(["tar", "-C", str(root), *leave_out, "-c", "."], stdout=subprocess.PIPE) as packing:
        engine.api.import_image_from_stream(
            packing.stdout, repository=repository, tag=tag, changes=[f"LABEL {LABEL}=image"]
        )
    if packing.returncode:
        engine.images.remove(reference)
        raise EnvironmentLacking(f"tar failed with status {packing.returncode} while the base image was imported")


# Where this machine's packages come from


def apt_sources(folder: Path = APT) -> tuple[Source, ...]:
    """Return all archives configured under ``folder``, in both of apt's formats, in apt's order."""
    lists = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    found: list[Source] = []
    for path in lists:
        if path.is_file() and path.suffix in (".list", ".sources"):
            text = path.read_text(encoding="utf-8", errors="replace")
            found += _deb822(text) if path.suffix == ".sources" else _one_line(text)
    return tuple(found)


def _deb822(text: str) -> Iterator[Source]:
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for stanza in "\n".join(lines).split("\n\n"):
        # A line that begins with a blank continues the field above it.
        fields = dict(line.split(":", 1) for line in stanza.replace("\n ", " ").splitlines() if ":" in line)
        words = {name.strip().lower(): value.split() for name, value in fields.items()}
        if "deb" not in words.get("types", []) or words.get("enabled") == ["no"]:
            continue
        for uri in words.get("uris", []):
            for suite in words.get("suites", []):
                yield Source(uri, suite, tuple(words.get("components", [])))


def _one_line(text: str) -> Iterator[Source]:
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words[:1] != ["deb"]:
            continue
        if len(words) > 1 and words[1].startswith("["):  # options, which may have blanks in them
            end = next((i for i, word in enumerate(words) if word.endswith("]")), len(words))
            words = [words[0], *words[end + 1 :]]
        if len(words) > 2:
            yield Source(words[1], words[2], tuple(words[3:]))


def debian_archives(found: Iterable[Source]) -> tuple[Source, ...]:
    """Debian 12's archives among ``found``, ``main`` only: the suite itself first, then its updates and its security.

    Another Debian release's addresses are used for it. Empty on another distribution.
    """
    http = [s for s in found if s.uri.startswith(("http:", "https:")) and "main" in s.components]
    own = {s.suite: s.uri for s in reversed(http) if s.suite in (SUITE, f"{SUITE}-updates", f"{SUITE}-security")}
    if SUITE not in own:
        other = next((s.uri for s in http if s.uri.rstrip("/").endswith("/debian")), None)
        own = {SUITE: other, f"{SUITE}-updates": other} if other else {}
    return tuple(Source(own[suite], suite, ("main",)) for suite in sorted(own))
