"""Conformance of the catalogue's lock programs, in containers."""

from __future__ import annotations

import pytest
from _pytest.mark.structures import ParameterSet

from harness.cli.main import main
from harness.lock_impls import catalogue
from harness.lock_impls.base import LockInfo

DEFAULT = {"curator-mutex", "redisson-redlock", "redsync", "node-redlock"}
FAILING = {"symfony-postgres": "PDO has no time-out for the answers of a PostgreSQL that is silent (silent-acquire)"}
"""Programs that fail a check, and why."""


def programs() -> list[ParameterSet]:
    """Yield the lock programs to check.

    ``DEFAULT`` is checked by default: Java with both its libraries, Go and Node. Slow tests check the others:
    redisson-lock and redisson-fenced share their program, library and protocol code with redisson-redlock, and
    go-etcd-mutex shares its program with redsync. PHP has an image that only long tests build. Behaviour of single
    locks is tested in tests/locks."""
    found = [info for info in catalogue.infos() if info.runtime]
    assert {info.name for info in found} >= DEFAULT
    return [
        pytest.param(
            info,
            id=info.name,
            marks=[
                pytest.mark.docker if info.name in DEFAULT else pytest.mark.long,
                *([pytest.mark.xfail(reason=FAILING[info.name], strict=True)] if info.name in FAILING else []),
            ],
        )
        for info in found
    ]


@pytest.mark.timeout(600)  # building its image may take this long
@pytest.mark.parametrize("info", programs())
def test_lock_program_passes_every_conformance_check(info: LockInfo, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["conformance", info.name])
    assert ended.value.code == 0, "".join(capsys.readouterr())
