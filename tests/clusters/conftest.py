"""Fixtures for tests of clusters: the simulated cluster and the one in containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clusters.bench import Bench, DockerBench, SimBench


@pytest.fixture(scope="session")
def _docker_bench() -> Iterator[DockerBench]:
    bench = DockerBench()
    yield bench
    bench.close()


@pytest.fixture(params=["sim", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.xdist_group("docker")])])
def bench(request: pytest.FixtureRequest) -> Bench:
    """The simulator, and real containers where ``-m docker`` asks for them."""
    if request.param == "sim":
        return SimBench()
    real: DockerBench = request.getfixturevalue("_docker_bench")
    return real
