"""The Python wheels of the client image: this project, and the libraries that locks are written with.

The image's Python has neither pip nor a way to reach an index, so everything is collected here, on the host, with the
versions installed here: what a container tests is what its user tested on this machine.
"""

from __future__ import annotations

import base64
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

from ..errors import EnvironmentLacking

Progress = Callable[[str], None]

DISTRIBUTION: Final = "lock-harness"
PACKAGES: Final = ("harness", "lock_impls", "checkers", "reports")
ROOT: Final = Path(__file__).parents[2]
"""The checkout, or the site-packages that this is installed in."""

LIBRARIES: Final = (
    "redis", "redlock-py", "msgspec", "PyMySQL", "pymemcache", "kazoo", "etcd3", "hazelcast-python-client",
)  # fmt: skip
"""What locks and the agent in a client container import, whatever the lock."""
EXTRA: Final = ("async-timeout==5.0.1",)
"""Debian 12 has Python 3.11.2, and redis needs this below 3.11.3: pip on a newer host would leave it out."""
IMAGE_PYTHON: Final = "3.11"


def cache_dir() -> Path:
    """Where wheels are kept between runs; not made yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lock-harness"


# The project


def sources(root: Path = ROOT) -> dict[str, bytes]:
    """Path in the wheel → content of every file of the project's packages, sorted; read once, so that what is hashed
    is what is packed."""
    files = (path.relative_to(root) for name in PACKAGES for path in (root / name).rglob("*") if path.is_file())
    kept = (path for path in files if not any(part == "__pycache__" or part.startswith(".") for part in path.parts))
    return {path.as_posix(): (root / path).read_bytes() for path in sorted(kept)}


def version() -> str:
    """Of this project as it is installed here."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:  # run from a checkout that is merely on the path
        return "0"


def pack(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write the project's wheel into ``folder``: the same bytes for the same files, so that the engine's cache sees
    no change where there is none.

    Written here rather than by a build backend: that takes seconds, needs an index, and cannot start from an installed
    distribution. There are no requirements in it, since containers have what :data:`LIBRARIES` says and no more.
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
    """What pip is asked for: each library and all that it needs at exactly the versions installed here, sorted.

    Raises:
        EnvironmentLacking: one is not installed here, or is not a built package.
    """
    return tuple(sorted({*map(_pin, _closure([*LIBRARIES, *requirements])), *EXTRA}))


def _closure(names: Sequence[str]) -> list[metadata.Distribution]:
    """The distributions of ``names`` and what they require, as far as it is installed here: what a marker rules out or
    nobody asked for (extras) is not."""
    found: dict[str, metadata.Distribution] = {}
    wanted = [(name, True) for name in names]
    while wanted:
        name, asked = wanted.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            if asked:
                raise EnvironmentLacking(
                    f"{name} is not installed here: {sys.executable} -m pip install {name}"
                ) from error
            continue
        if distribution.name not in {*found, DISTRIBUTION}:
            found[distribution.name] = distribution
            wanted += [(name, False) for name in _required(distribution)]
    return list(found.values())


def _required(distribution: metadata.Distribution) -> tuple[str, ...]:
    """Names of what a distribution requires, extras left out."""
    lines = [line for line in distribution.requires or [] if "extra ==" not in line]
    return tuple(match[0] for line in lines if (match := re.match(r"[\w.-]+", line)))


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
    """Where it was installed from (PEP 610), empty if that was an index."""
    found: dict[str, Any] = json.loads(distribution.read_text("direct_url.json") or "{}")
    return found


def identity(requirements: Sequence[str]) -> bytes:
    """What the wheels of ``requirements`` depend on: names and versions, and, for what came from a folder or an
    address and may change without a new version, what was installed of it."""
    texts = list(pins(requirements))
    for text in tuple(texts):
        name, direct, _ = text.partition(" @ ")
        if direct:
            texts.append(metadata.distribution(name).read_text("RECORD") or "")
    return "\n".join([IMAGE_PYTHON, *texts]).encode()


def libraries(requirements: Sequence[str], progress: Progress) -> Path:
    """The folder with ``pip`` and ``libraries``, each a folder of wheels, for the client image; made once for a set of
    requirements, kept in :func:`cache_dir`.

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
            if not home.is_dir():  # else another run was quicker
                raise
    return home


def _collect(wanted: Sequence[str], folder: Path) -> None:
    built = folder / "libraries"
    _pip("wheel", "--no-deps", "--wheel-dir", str(built), *wanted)
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder / "pip"), "pip")
    if f"{sys.version_info.major}.{sys.version_info.minor}" != IMAGE_PYTHON:
        for wheel in sorted(built.glob("*.whl")):
            _for_image(wheel, built)


def _for_image(wheel: Path, folder: Path) -> None:
    """Replace a wheel compiled for this machine's Python by the published one for the image's."""
    name, release, *_, python, abi, _ = wheel.stem.split("-")
    minor = int(IMAGE_PYTHON.partition(".")[2])
    stable = abi == "abi3" and any(int(since) <= minor for since in re.findall(r"cp3(\d+)", python))
    if abi == "none" or stable:
        return
    target = ("--python-version", IMAGE_PYTHON, "--implementation", "cp", "--only-binary", ":all:")
    _pip("download", "--no-deps", "--dest", str(folder), *target, f"{name}=={release}")
    wheel.unlink()


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    with tempfile.TemporaryDirectory() as elsewhere:  # a folder called like a requirement must not be taken for it
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere)
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise EnvironmentLacking(f"this Python has no pip, which collects the wheels: {sys.executable} -m ensurepip")
    last = "\n".join([*done.stdout.splitlines(), *done.stderr.splitlines()][-10:])
    raise EnvironmentLacking(f"cannot collect the wheels of the client image; pip {arguments[0]} says:\n{last}")
