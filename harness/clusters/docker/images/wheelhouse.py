"""Collect the Python wheels of the client image: this project, and the client libraries of locks.

The image's Python has neither pip nor access to a package index. So wheels are collected on this machine, in the
versions that are installed here, or that a user requires (:mod:`harness.environments.resolution`).
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from harness.errors import EnvironmentLacking

Progress = Callable[[str], None]

DISTRIBUTION: Final = "lock-harness"
PACKAGE: Final = "harness"
LEFT_OUT: Final = ("__pycache__", "dockerfiles")
"""Folders that clients do not need."""
ROOT: Final = Path(__file__).parents[4]
"""The checkout, or the site-packages folder in which this project is installed."""

LIBRARIES: Final = (
    "redis", "redlock-py", "msgspec", "PyMySQL", "pymemcache", "kazoo", "etcd3", "hazelcast-python-client", "pg8000",
    "py-consul", "nats-py",
)  # fmt: skip
"""Distributions in every client container, whatever the lock, if they are installed here: so most locks share an image.

A lock whose client library is not installed here is refused before.
"""
EXTRA: Final = ("async-timeout==5.0.1",)
"""Debian 12 has Python 3.11.2, and redis needs this below 3.11.3: pip on a newer host would leave it out."""
IMAGE_PYTHON: Final = "3.11"
PIP: Final = "pip==24.0"
"""The last one that reads the metadata of old releases, such as Celery 5.0: pip 24.1 refuses ``pytz (>dev)``."""
_NAME: Final = re.compile(r"[\w.-]+")


def cache_dir() -> Path:
    """Folder in which wheels are cached between runs; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lock-harness"


# The project


@functools.cache
def sources(root: Path = ROOT) -> Mapping[str, bytes]:
    """Return the contents of every file of the package by path in the wheel, sorted.

    Files are read once in a process, so that the hashed contents are the packed ones. Scenario files are left out:
    plans reach clients as data, and a new scenario must not cause a new image.
    """
    found: dict[str, bytes] = {}
    for folder, folders, files in os.walk(root / PACKAGE, followlinks=True):  # in a checkout some folders are links
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith(".")]
        here = Path(folder)
        found.update(
            ((here / name).relative_to(root).as_posix(), (here / name).read_bytes())
            for name in files
            if not name.startswith(".")
            and not (here.is_relative_to(root / PACKAGE / "scenarios") and name.endswith(".toml"))
        )
    return dict(sorted(found.items()))


def version() -> str:
    """Return the installed version of this project; ``"0"`` in a checkout that is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:  # a checkout that is only on the path
        return "0"


def pack(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write the project's wheel into ``folder``. The same files give the same bytes, so that the engine's cache stays
    valid.

    No build backend is used: one takes seconds, needs an index, and cannot start from an installed distribution. The
    wheel has no requirements, since containers get exactly the :data:`LIBRARIES`.
    """
    name = DISTRIBUTION.replace("-", "_")
    info = f"{name}-{version()}.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {version()}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: harness\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    content = {**files, **{path: text.encode() for path, text in texts.items()}}
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    wheel = folder / f"{name}-{version()}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


# The libraries


def pins(requirements: Sequence[str] = ()) -> tuple[str, ...]:
    """Return pip requirements of all libraries and their dependencies, pinned, sorted.

    ``requirements`` are names of distributions, which get the installed versions. Or they are pinned, and complete:
    then they are returned.

    Raises:
        EnvironmentLacking: one is not installed here, or is not a built package.
    """
    if any(not _NAME.fullmatch(one) for one in requirements):
        return tuple(sorted(requirements))
    return tuple(sorted({*map(pinned, _closure(requirements, LIBRARIES)), *EXTRA}))


def _closure(names: Sequence[str], if_installed: Sequence[str] = ()) -> set[str]:
    """Return the names of the distributions ``names``, those of ``if_installed``, and all their installed requirements.
    Requirements of unused extras, and those that a marker excludes, are left out."""
    found: set[str] = set()
    wanted = [*((name, True) for name in names), *((name, False) for name in if_installed)]
    while wanted:
        name, required = wanted.pop()
        try:
            own_name, requirement_names = _installed(name)
        except metadata.PackageNotFoundError as error:
            if required:
                raise EnvironmentLacking(
                    f"{name} is not installed here: {sys.executable} -m pip install {name}"
                ) from error
            continue
        if own_name not in {*found, DISTRIBUTION}:
            found.add(own_name)
            wanted += [(name, False) for name in requirement_names]
    return found


@functools.cache
def _installed(name: str) -> tuple[str, tuple[str, ...]]:
    """Return (name in its metadata, names of its requirements without extras) of an installed distribution. Cached,
    since each run of a night needs some thirty of them, and each takes milliseconds."""
    distribution = metadata.distribution(name)
    lines = [line for line in distribution.requires or [] if "extra ==" not in line]
    return distribution.name, tuple(match[0] for line in lines if (match := re.match(r"[\w.-]+", line)))


@functools.cache
def pinned(name: str) -> str:
    """Return the requirement of a distribution in the version that is installed here; EnvironmentLacking if it has no
    built package."""
    return _pin(metadata.distribution(name))


def _pin(distribution: metadata.Distribution) -> str:
    at = origin(distribution)
    if not at:
        return f"{distribution.name}=={distribution.version}"
    if at.get("dir_info", {}).get("editable"):
        raise EnvironmentLacking(
            f"{distribution.name} is installed in editable mode, and a container needs a built package: "
            f"{sys.executable} -m pip install {at['url']}"
        )
    vcs = at.get("vcs_info")
    url = f"{vcs['vcs']}+{at['url']}@{vcs['commit_id']}" if vcs else at["url"]
    return f"{distribution.name} @ {url}"


def origin(distribution: metadata.Distribution) -> dict[str, Any]:
    """Return the URL record of a direct installation (PEP 610), empty if it came from an index."""
    found: dict[str, Any] = json.loads(distribution.read_text("direct_url.json") or "{}")
    return found


def identity(requirements: Sequence[str]) -> bytes:
    """Return everything that determines the wheels of ``requirements``: names, versions, and the installed files of
    distributions from a folder or an address, which may change without a new version."""
    texts = list(pins(requirements))
    for text in tuple(texts):
        name, direct, _ = text.partition(" @ ")
        if direct:
            with contextlib.suppress(metadata.PackageNotFoundError):  # the address of a user's requirement
                texts.append(metadata.distribution(name).read_text("RECORD") or "")
    return "\n".join([IMAGE_PYTHON, PIP, *texts]).encode()


def libraries(requirements: Sequence[str], progress: Progress) -> Path:
    """Return the folder with ``pip`` and ``libraries``, each a folder of wheels, for the client image.

    It is made once for each set of requirements and cached in :func:`cache_dir`.

    Raises:
        EnvironmentLacking: pip is missing or fails; the message has its last lines.
    """
    home = cache_dir() / "wheels" / hashlib.sha256(identity(requirements)).hexdigest()[:12]
    if home.is_dir():
        return home
    wanted = pins(requirements)
    progress(f"collecting wheels of {', '.join(wanted)}")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".") as work:
        fresh = Path(work) / "fresh"
        _collect(wanted, fresh)
        try:
            fresh.rename(home)
        except OSError:
            if not home.is_dir():  # another run may have made it meanwhile
                raise
    return home


def _collect(wanted: Sequence[str], folder: Path) -> None:
    built = folder / "libraries"
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder / "pip"), PIP)
    _pip("wheel", "--no-deps", "--wheel-dir", str(built), *wanted, runs_from=folder / "pip")
    if f"{sys.version_info.major}.{sys.version_info.minor}" != IMAGE_PYTHON:
        for wheel in sorted(built.glob("*.whl")):
            _for_image(wheel, built, folder / "pip")


def _for_image(wheel: Path, folder: Path, pip: Path) -> None:
    """Replace a wheel compiled for this machine's Python by the published one for the image's Python; ``pip`` is the
    folder with pip's wheel."""
    name, release, *_, python, abi, _ = wheel.stem.split("-")
    minor = int(IMAGE_PYTHON.partition(".")[2])
    stable = abi == "abi3" and any(int(since) <= minor for since in re.findall(r"cp3(\d+)", python))
    if abi == "none" or stable:
        return
    target = ("--python-version", IMAGE_PYTHON, "--implementation", "cp", "--only-binary", ":all:")
    _pip("download", "--no-deps", "--dest", str(folder), *target, f"{name}=={release}", runs_from=pip)
    wheel.unlink()


def download(requirement: str, folder: Path) -> None:
    """Download the published wheel of a requirement for the images' system into a folder."""
    platforms = ("--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64")
    target = ("--python-version", IMAGE_PYTHON, "--implementation", "cp", "--only-binary", ":all:", *platforms)
    _pip("download", "--no-deps", "--dest", str(folder), *target, requirement)


def _pip(*arguments: str, runs_from: Path | None = None) -> None:
    """Run this machine's pip, or the one whose wheel is in a folder."""
    path = {} if runs_from is None else {"PYTHONPATH": str(next(runs_from.glob("pip-*.whl")))}
    environment = os.environ | path
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    with tempfile.TemporaryDirectory() as elsewhere:  # pip must not mistake a folder named like a requirement for it
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere, env=environment)
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise EnvironmentLacking(f"this Python has no pip, which collects the wheels: {sys.executable} -m ensurepip")
    last = "\n".join([*done.stdout.splitlines(), *done.stderr.splitlines()][-10:])
    raise EnvironmentLacking(f"cannot collect the wheels of the image; pip {arguments[0]} says:\n{last}")
