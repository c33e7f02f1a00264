"""The locks of the catalogue that are programs, in containers, as a user tries them."""

from __future__ import annotations

import pytest
from _pytest.mark.structures import ParameterSet

from harness.cli import main
from lock_impls import catalogue
from lock_impls.base import LockInfo

KEPT = {"curator-mutex", "redisson-redlock", "redsync", "node-redlock"}


def programs() -> list[ParameterSet]:
    """``KEPT`` is tried each time: Java with both its libraries, Go and Node. The others are seen once: redisson-lock
    and redisson-fenced share program, library and all that speaks the protocol with redisson-redlock, and go-etcd-mutex
    shares its program with redsync. What is the locks' own is tested in tests/locks."""
    found = [info for info in catalogue.infos() if info.runtime]
    assert {info.name for info in found} >= KEPT
    return [
        pytest.param(info, id=info.name, marks=pytest.mark.docker if info.name in KEPT else pytest.mark.long)
        for info in found
    ]


@pytest.mark.timeout(600)  # its image may have to be built
@pytest.mark.parametrize("info", programs())
def test_it_speaks_the_client_protocol(info: LockInfo, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["conformance", info.name])
    assert ended.value.code == 0, capsys.readouterr().out
