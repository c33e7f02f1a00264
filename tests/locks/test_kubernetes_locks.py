"""The leader elections on Kubernetes, in containers: runs without faults are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main

RUNS = {
    "client-go-leader": ["--time-limit", "15s"],
    "kubernetes-leader": ["--ttl", "3s", "--time-limit", "40s"],  # each leader after the first waits for a lease
}


@pytest.mark.long
@pytest.mark.timeout(1800)  # it may have to compile the API server
@pytest.mark.parametrize("lock", RUNS)
def test_a_run_without_faults_is_valid(lock: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", lock, "--cluster", "docker", "--clients", "3", "--out", str(tmp_path), *RUNS[lock]])
    assert ended.value.code == 0, "".join(capsys.readouterr())
