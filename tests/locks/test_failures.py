"""Catalogue entries say what happens on a holder's death and on an outage, and their commands demonstrate the
failures."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.clusters.kinds import kinds
from harness.lock_impls import catalogue

ON_SIM = set(kinds("sim"))
COMMANDS = [
    pytest.param(failure.command, id=f"{info.name}-{failure.id}")
    for info in catalogue.infos()
    for failure in info.failures
    if info.simulated and ON_SIM & set(info.kinds)
]


@pytest.mark.parametrize("info", catalogue.infos(), ids=lambda info: info.name)
def test_entry_states_death_outage_and_failures(info: Any) -> None:
    assert info.on_death
    assert info.outage
    assert info.failures, "every lock has a known failure"
    assert len({failure.id for failure in info.failures}) == len(info.failures)
    for failure in info.failures:
        assert failure.command.startswith(f"harness run {info.name}")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_command_demonstrates_its_failure(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--cluster", "sim", "--seed", "1", "--quiet", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command)[1:], *more])
    assert ended.value.code == 1, capsys.readouterr().out
