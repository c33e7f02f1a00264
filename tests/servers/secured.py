"""A password, a certificate, and runs on servers that demand them, for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import FaultSpec, Plan, run
from harness.run.verdicts.judging import Result

SECRET = "s3cret-of-the-test"
VARIABLE = "HARNESS_TEST_PASSWORD"


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that is its own authority; return it and its key."""
    found, key = folder / "server.crt", folder / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(found)],
        check=True, capture_output=True,
    )  # fmt: skip
    return found, key


def leaks(*folders: Path) -> list[str]:
    """Files that have the password in them."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 3
    return [str(path) for path in files if SECRET.encode() in path.read_bytes()]


def run_with_fault(lock: str, url: str, store: Path, fault: FaultSpec) -> Result:
    plan = Plan(
        lock=lock, cluster="servers", servers=(url,), clients=3, ttl=2.0, time_limit=9.0, faults=(fault,)
    )  # fmt: skip
    return run(plan, store=store)


LOST = FaultSpec("lost-reply", on="acquire", nth=3)
