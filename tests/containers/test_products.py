"""Name and version of a server, by what it reports of itself."""

from __future__ import annotations

import pytest

from harness.clusters.docker.services import mysql, redis


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"redis_version": "7.0.15"}, "redis 7.0.15"),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.8"}, "valkey 8.1.8"),
        ({"redis_version": "7.4.0", "dragonfly_version": "df-v1.25.1"}, "dragonfly 1.25.1"),
        ({"redis_version": "7.2.4", "server_name": "fork"}, "fork 7.2.4"),
    ],
)
def test_a_server_that_only_claims_to_be_a_redis_has_its_own_name(info: dict[str, str], said: str) -> None:
    assert redis.product(info) == said


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("10.11.18-MariaDB-0+deb12u1", "mariadb 10.11.18-MariaDB-0+deb12u1"),
        ("5.5.5-10.4.2-mariadb", "mariadb 5.5.5-10.4.2-mariadb"),
        ("8.0.36", "mysql 8.0.36"),
    ],
)
def test_mysql_is_not_called_mariadb(version: str, said: str) -> None:
    assert mysql.product(version) == said
