"""PostgreSQL behind PgBouncer in containers: configuration, and one real PgBouncer in each pool mode."""

from __future__ import annotations

from contextlib import closing

import pytest

from harness.clusters.docker.services.pgbouncer import PgBouncerServers, configuration
from harness.clusters.kinds.postgres import POOLED
from harness.clusters.server_options import completed
from harness.errors import UsageError
from harness.lock_impls.base import Endpoints
from harness.lock_impls.postgres_client import PostgresSession, with_literals
from tests.clusters.real import servers

PID = "SELECT pg_backend_pid()"


def test_configuration_has_the_plan_s_options_and_transaction_mode_by_default() -> None:
    assert "\npool_mode = transaction\n" in configuration(6432, {})
    options = {"pool_mode": "session", "server_round_robin": True, "lock_timeout": 1.0}
    found = configuration(6432, options)
    assert "\npool_mode = session\n" in found
    assert "\nserver_round_robin = 1\n" in found
    assert "lock_timeout" not in found


def test_options_of_postgresql_go_to_postgresql_and_those_of_pgbouncer_do_not() -> None:
    options = completed(POOLED.options, {"lock_timeout": 1.5, "min_pool_size": 3}, "docker")
    command, environment = PgBouncerServers("postgres-pgbouncer", 1, options).program("n1")
    assert "lock_timeout=1500ms" in command
    assert not [word for word in command if word.startswith("min_pool_size")]
    assert "port=5432" in command
    assert "\nlisten_port = 6432\n" in environment["POOLER"]
    assert "\nmin_pool_size = 3\n" in environment["POOLER"]


@pytest.mark.parametrize("options", [{"pool_mode": "statement"}, {"min_pool_size": 0}, {"server_round_robin": 1}])
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        completed(POOLED.options, options, "docker")


def test_literals_replace_arguments_but_not_casts() -> None:
    statement = "SELECT set_config('lock_timeout', :value, false), :key::text"
    expected = "SELECT set_config('lock_timeout', '10ms', false), 'it''s'::text"
    assert with_literals(statement, {"value": "10ms", "key": "it's"}) == expected


@pytest.mark.docker
def test_clients_share_a_session_in_transaction_mode() -> None:
    with servers("postgres-pgbouncer") as cluster:
        assert cluster.servers.version().startswith("postgresql 15")
        assert "pgbouncer 1." in cluster.servers.version()
        where = Endpoints("postgres-pgbouncer", cluster.endpoints().addresses)
        with closing(PostgresSession(where)) as one, closing(PostgresSession(where)) as other:
            assert one.execute(PID).rows == other.execute(PID).rows
            one.execute("BEGIN")
            assert one.execute(PID).rows != other.execute(PID).rows
