"""What the catalogue says of a lock: that it says it, and that each command shows the failure that it is for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.clusters.kinds import kinds
from lock_impls import catalogue

ON_SIM = set(kinds("sim"))
COMMANDS = [
    pytest.param(failure.command, id=f"{info.name}-{failure.id}")
    for info in catalogue.infos()
    for failure in info.failures
    if info.simulated and ON_SIM & set(info.kinds)
]


@pytest.mark.parametrize("info", catalogue.infos(), ids=lambda info: info.name)
def test_a_lock_says_what_its_holder_s_death_and_a_server_s_loss_mean(info: Any) -> None:
    assert info.on_death
    assert info.outage
    assert info.failures, "there is no lock that nothing is known of"
    assert len({failure.id for failure in info.failures}) == len(info.failures)
    for failure in info.failures:
        assert failure.command.startswith(f"harness run {info.name}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("command", COMMANDS)
def test_its_command_shows_the_failure(
    command: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--cluster", "sim", "--seed", str(seed), "--quiet", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command)[1:], *more])
    assert ended.value.code == 1, capsys.readouterr().out
