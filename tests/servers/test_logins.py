"""Servers of a user with passwords and TLS: their addresses, runs on real servers, and no trace of a password."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pg8000.native import Connection

from harness import Plan, run
from harness.clusters.kinds.mysql import STRANGERS_LOGIN
from harness.clusters.servers.addresses import parse_server
from harness.clusters.servers.links import ProxyClient, probe
from harness.clusters.servers.tls import TlsSettings
from harness.errors import UNKNOWN, VALID, VIOLATION, EnvironmentLacking, UsageError
from harness.fidelity.mysql.pair import MysqlComparison
from harness.fidelity.postgres.pair import answers, copy_data, install, server_command
from harness.fidelity.processes import PATIENCE_S, Place, ServerProcess
from harness.plan import dump, load, refuse_untrusted
from harness.run.plans.completion import complete

from .own_redis import DaemonRedis, daemon_redis
from .secured import LOST, SECRET, VARIABLE, certificate, leaks, run_with_fault

pytestmark = pytest.mark.usefixtures("password")


# Addresses.


def test_the_password_of_an_address_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    address = parse_server(f"redis://app:${VARIABLE}@127.0.0.1")
    assert (address.user, address.password, str(address)) == ("app", SECRET, "redis://127.0.0.1:6379")
    assert SECRET not in repr(address)
    assert parse_server(f"redis://:${{{VARIABLE}}}@127.0.0.1").password == SECRET
    assert parse_server(f"redis+sentinel://:${VARIABLE}@127.0.0.1,127.0.0.2/mymaster").password == SECRET
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(EnvironmentLacking, match=f"{VARIABLE}, which has the password of redis://.*, is not set"):
        parse_server(f"redis://app:${VARIABLE}@127.0.0.1")


@pytest.mark.parametrize(
    "text",
    [
        "redis://app:hunter2@127.0.0.1", "redis://:hunter2@127.0.0.1", "postgresql://app:hunter2@127.0.0.1/shop",
        "redis+sentinel://:hunter2@127.0.0.1/mymaster", "redis+sentinel://:hunter2@127.0.0.1", "redis://:hunter2@",
        "redis://:hunter2@127.0.0.1/x?y", "redis://:hunter2@127.0.0.1:port", "memcached://a:hunter2@127.0.0.1",
        "etcd://app:hunter2@127.0.0.1", "redis+sentinel://127.0.0.1/mymaster?sentinel_password=hunter2",
        "redis+sentinel://127.0.0.1/my/master?sentinel_password=hunter2", "redis://:x?hunter2@127.0.0.1/1",
        "redis+sentinel://127.0.0.1/mymaster?password=hunter2", "mysql://app:hunter2@127.0.0.1?ssl-mode=REQUIRED",
    ],
)  # fmt: skip
def test_a_password_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_server(text)
    assert "hunter2" not in str(refused.value)


def test_tls_is_in_the_address() -> None:
    assert parse_server("rediss://db1?ssl_ca_certs=/etc/ca.pem").tls == TlsSettings(ca_certs="/etc/ca.pem")
    assert str(parse_server("rediss://127.0.0.1")) == "rediss://127.0.0.1:6379"
    assert parse_server("postgresql://127.0.0.1").tls is None
    assert parse_server("postgresql://127.0.0.1?sslmode=disable").tls is None
    assert parse_server("postgresql://127.0.0.1/shop?sslmode=require").tls == TlsSettings(verified=False)
    full = parse_server("postgresql://127.0.0.1/shop?sslmode=verify-full&sslrootcert=/etc/ca.pem")
    assert (full.database, full.tls) == ("shop", TlsSettings(ca_certs="/etc/ca.pem"))
    etcd = parse_server("etcds://127.0.0.1?cacert=/etc/ca.pem&cert=/etc/c.pem&key=/etc/k.pem")
    assert etcd.tls == TlsSettings(ca_certs="/etc/ca.pem", certfile="/etc/c.pem", keyfile="/etc/k.pem")
    assert str(etcd) == "etcds://127.0.0.1:2379"
    assert parse_server("mysql://127.0.0.1").tls is None
    assert parse_server("mysql://127.0.0.1?ssl-mode=REQUIRED").tls == TlsSettings(verified=False)
    named = parse_server("mysql://127.0.0.1/shop?ssl-mode=VERIFY_CA&ssl-ca=/etc/ca.pem")
    assert (named.database, named.tls) == ("shop", TlsSettings(ca_certs="/etc/ca.pem", host_checked=False))


def test_sentinels_have_a_login_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_PASSWORD", "other")
    url = f"redis+sentinel://app:${VARIABLE}@127.0.0.1,127.0.0.2/mymaster"
    address = parse_server(f"{url}?sentinel_username=watch&sentinel_password=$OTHER_PASSWORD")
    assert (address.login, address.sentinel_login) == (("app", SECRET), ("watch", "other"))
    assert address.primary == "mymaster"
    assert str(address) == "redis+sentinel://127.0.0.1:26379,127.0.0.2:26379/mymaster"
    assert parse_server(url).sentinel_login is None
    assert parse_server("redis+sentinel://127.0.0.1/m?sentinel_password=$OTHER_PASSWORD").login is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rediss://127.0.0.1?ssl_ca_cert=x", "unknown option of rediss:// 'ssl_ca_cert': did you mean ssl_ca_certs"),
        ("redis://127.0.0.1?ssl_ca_certs=x", "unknown option of redis:// 'ssl_ca_certs'"),
        ("postgresql://127.0.0.1?sslmode=verify", "unknown sslmode 'verify'"),
        ("postgresql://127.0.0.1?sslrootcert=x", "sslrootcert needs sslmode=require"),
        ("mysql://127.0.0.1?sslmode=require", "unknown option of mysql:// 'sslmode': did you mean ssl-mode"),
        ("mysql://127.0.0.1?ssl-mode=VERIFY", "unknown ssl-mode 'VERIFY': did you mean VERIFY_CA"),
        ("mysql://127.0.0.1?ssl-ca=x", "ssl-ca needs ssl-mode=REQUIRED, VERIFY_CA or VERIFY_IDENTITY"),
        ("etcd://127.0.0.1?cacert=x", "unknown option of etcd:// 'cacert'"),
        ("etcds://127.0.0.1?ca=x", "unknown option of etcds:// 'ca': did you mean cacert"),
        ("etcd://app@127.0.0.1", "a user of an etcd needs a password"),
        (f"etcd://:${VARIABLE}@127.0.0.1", "the password of an etcd needs a user"),
        ("redis+sentinel://127.0.0.1/m?sentinel_user=x", "'sentinel_user': did you mean sentinel_username"),
        ("redis+sentinel://127.0.0.1/m?sentinel_username=x", "sentinel_username needs a password of the sentinels"),
        ("memcached://app@127.0.0.1", "with redis, postgresql, mysql, etcd, not with memcached"),
        ("redis://127.0.0.1/1", "expected only redis://HOST:PORT"),
        ("redis://app@127.0.0.1", "a user of a Redis needs a password"),
    ],
)  # fmt: skip
def test_wrong_logins_and_options_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_server(text)


def test_servers_with_different_logins_are_refused() -> None:
    servers = (f"redis://a:${VARIABLE}@127.0.0.1:1", f"redis://b:${VARIABLE}@127.0.0.1:2")
    with pytest.raises(UsageError, match="must have the same user"):
        complete(Plan(lock="redlock", cluster="servers", servers=servers).check())


def test_a_plan_has_the_variable_only(tmp_path: Path) -> None:
    text = f"redis://app:${VARIABLE}@127.0.0.1"
    plan = complete(Plan(lock="redis-token", cluster="servers", servers=(text,)).check())
    (tmp_path / "plan.toml").write_text(dump(plan))
    assert SECRET not in dump(plan)
    assert load(tmp_path / "plan.toml").servers == (text,)


def test_a_variable_that_a_file_names_needs_permission() -> None:
    """Otherwise a file of a stranger could send any variable to a server of his."""
    text = f"redis+sentinel://${{{VARIABLE}}}:${VARIABLE}@127.0.0.1/mymaster?sentinel_password=$OTHER"
    plan = Plan(lock="redis-token", cluster="servers", servers=(text,))
    with pytest.raises(UsageError, match=f"environment variable {VARIABLE}, .*--allow {VARIABLE} --allow OTHER"):
        refuse_untrusted(plan, "plan.toml", (), hooks=True)
    refuse_untrusted(plan, "plan.toml", (VARIABLE, "OTHER"))


# Runs.


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[DaemonRedis, Path]]:
    """A Redis with TLS only, a user with a password, and none for others; and its authority."""
    (tmp_path / "data").mkdir()
    found, key = certificate(tmp_path / "data")
    settings = tmp_path / "data" / "redis.conf"
    settings.write_text(
        f"tls-cert-file {found}\ntls-key-file {key}\ntls-ca-cert-file {found}\ntls-auth-clients no\n"
        f"user app on >{SECRET} ~* &* +@all\nuser default off\n"
    )
    with daemon_redis(tmp_path / "data", str(settings), tls=True) as server:
        yield server, found


@pytest.mark.slow
def test_a_run_on_a_redis_with_a_password_and_tls_leaves_no_password(
    secured: tuple[DaemonRedis, Path], tmp_path: Path
) -> None:
    """It is a command, since its arguments and those of its programs are looked at, too."""
    server, authority = secured
    url = f"rediss://app:${VARIABLE}@127.0.0.1:{server.port}?ssl_ca_certs={authority}"
    options = ["--nemesis", "lost-reply", "--time-limit", "8s", "--clients", "3", "--out", str(tmp_path / "store")]
    command = [sys.executable, "-m", "harness", "run", "redis-token", "--servers", url, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seen: set[bytes] = set()
    while process.poll() is None:
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = line.read_bytes()
            except OSError:
                continue
            if b"harness" in words:
                seen.add(words)
        time.sleep(0.2)
    output = process.communicate()[0]
    assert process.returncode in (VALID, VIOLATION, UNKNOWN), output.decode()  # unknown on a loaded machine
    assert any(b"cleaner" in words for words in seen)
    assert not [words for words in seen if SECRET.encode() in words]
    assert SECRET.encode() not in output
    assert b"lost-reply" in output
    assert leaks(tmp_path / "store") == []
    (results,) = (tmp_path / "store").glob("*/*/results.json")
    document = json.loads(results.read_text())
    assert document["cluster"]["addresses"] == [f"rediss://127.0.0.1:{server.port}"]
    assert document["cluster"]["server"].startswith("redis ")
    assert "left_behind" not in document["cluster"]
    assert document["stats"]["acquires_ok"] > 0


def test_a_wrong_password_or_authority_is_named(
    secured: tuple[DaemonRedis, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, authority = secured
    plain = f"rediss://app:${VARIABLE}@127.0.0.1:{server.port}"
    with pytest.raises(EnvironmentLacking, match=r"TLS: .*certificate verify failed"):
        run(Plan(lock="redis-token", cluster="servers", servers=(plain,)))
    with pytest.raises(EnvironmentLacking, match=r"certificates in /no/such.pem cannot be used"):
        run(Plan(lock="redis-token", cluster="servers", servers=(f"{plain}?ssl_ca_certs=/no/such.pem",)))
    monkeypatch.setenv(VARIABLE, "wrong")
    with pytest.raises(EnvironmentLacking, match=r"WRONGPASS|invalid username-password"):
        run(Plan(lock="redis-token", cluster="servers", servers=(f"{plain}?ssl_ca_certs={authority}",)))


@contextmanager
def secured_postgres() -> Iterator[tuple[Place, Path]]:
    """A PostgreSQL whose user ``app`` of the database ``shop`` needs TLS and a password."""
    with tempfile.TemporaryDirectory(prefix="harness-postgres-") as folder:
        found, key = certificate(Path(folder))
        first = Path(folder) / "db"
        install(first)

        def prepare(place: Path) -> None:
            shutil.copy(found, first / "server.crt")
            shutil.copy(key, first / "server.key")
            (first / "server.key").chmod(0o600)
            rules = (first / "pg_hba.conf").read_text()
            ours = "hostssl shop app 127.0.0.1/32 scram-sha-256\nhost shop all all reject\n"
            (first / "pg_hba.conf").write_text(ours + rules)
            copy_data(first, place)

        command = partial(server_command, ssl="on", ssl_cert_file="server.crt", ssl_key_file="server.key")
        with ServerProcess("postgres", command, ready=answers, prepare=lambda place: prepare(place.folder)) as server:
            host, port = server.place.address
            with closing(Connection("harness", host=host, port=port, database="harness")) as ask:
                ask.run(f"CREATE ROLE app LOGIN PASSWORD '{SECRET}'")
                ask.run("CREATE DATABASE shop OWNER app")
            yield server.place, found


@pytest.mark.slow
def test_a_lock_runs_on_a_postgres_with_a_password_and_tls(tmp_path: Path) -> None:
    with secured_postgres() as (place, authority):
        where = f"postgresql://app:${VARIABLE}@127.0.0.1:{place.address[1]}/shop"
        with pytest.raises(EnvironmentLacking, match=r"no encryption|rejects connection|no pg_hba.conf entry"):
            run_with_fault("postgres-row", where, tmp_path / "store", LOST)
        mode = f"sslmode=verify-full&sslrootcert={authority}"
        result = run_with_fault("postgres-row", f"{where}?{mode}", tmp_path / "store", LOST)
    assert result.valid is not None, result.document["summary"]
    assert result.verdicts["faults"].valid is True
    assert result.document["stats"]["acquires_ok"] > 5
    assert result.document["cluster"]["keys_removed"] >= 1
    assert leaks(tmp_path / "store") == []


@contextmanager
def secured_mariadb(*settings: str, needs: str = "") -> Iterator[tuple[str, int]]:
    """A MariaDB whose user ``app`` of the database ``shop`` has a password; ``needs`` is a further rule for it."""
    with MysqlComparison().start(*settings) as pair:
        host, port = pair.address
        with closing(pymysql.connect(host=host, port=port, user="root")) as connection:
            cursor = connection.cursor()
            cursor.execute("CREATE DATABASE shop")
            cursor.execute(f"GRANT ALL ON shop.* TO 'app'@'%' IDENTIFIED BY '{SECRET}' {needs}")
        yield host, port


@pytest.mark.slow
def test_a_lock_runs_on_a_mariadb_with_a_password(tmp_path: Path) -> None:
    with secured_mariadb() as (host, port):
        where = f"mysql://app:${VARIABLE}@{host}:{port}/shop"
        result = run_with_fault("mysql-ttl", where, tmp_path / "store", LOST)
        with pytest.raises(EnvironmentLacking, match=r"SSL is required|has no TLS"):
            run_with_fault("mysql-ttl", f"{where}?ssl-mode=REQUIRED", tmp_path / "store", LOST)
    assert result.verdicts["faults"].valid is True
    assert result.document["stats"]["acquires_ok"] > 5
    assert result.document["cluster"]["addresses"] == [f"mysql://{host}:{port}/shop"]
    assert leaks(tmp_path / "store") == []


@pytest.fixture(scope="module")
def mariadb_with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[str, int], Path]]:
    """A MariaDB whose user needs TLS, and its authority."""
    found, key = certificate(tmp_path_factory.mktemp("mariadb"))
    with secured_mariadb(f"--ssl-cert={found}", f"--ssl-key={key}", needs="REQUIRE SSL") as address:
        yield address, found


@pytest.mark.slow
def test_a_lock_runs_on_a_mariadb_with_tls(
    mariadb_with_tls: tuple[tuple[str, int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host, port), authority = mariadb_with_tls
    where = f"mysql://app:${VARIABLE}@{host}:{port}/shop"
    verified = f"{where}?ssl-mode=VERIFY_IDENTITY"
    with pytest.raises(EnvironmentLacking, match="Access denied"):
        run_with_fault("mysql-ttl", where, tmp_path / "store", LOST)
    with pytest.raises(EnvironmentLacking, match="certificate verify failed"):
        run_with_fault("mysql-ttl", verified, tmp_path / "store", LOST)
    result = run_with_fault("mysql-ttl", f"{verified}&ssl-ca={authority}", tmp_path / "store", LOST)
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation
    assert result.document["stats"]["acquires_ok"] > 5
    assert result.document["cluster"]["addresses"] == [f"mysql://{host}:{port}/shop"]
    assert "left_behind" not in result.document["cluster"]
    assert leaks(tmp_path / "store") == []
    monkeypatch.setenv(VARIABLE, "wrong")
    with pytest.raises(EnvironmentLacking, match="Access denied"):
        run_with_fault("mysql-ttl", f"{verified}&ssl-ca={authority}", tmp_path / "store", LOST)


@pytest.mark.slow
def test_the_proxy_encrypts_connections_of_clients_of_mysql(
    mariadb_with_tls: tuple[tuple[str, int], Path],
) -> None:
    address, authority = mariadb_with_tls
    login: dict[str, Any] = {"user": "app", "database": "shop", "ssl_disabled": True}
    settings = {"n1": TlsSettings(ca_certs=str(authority)), "n2": TlsSettings(verified=False), "n3": TlsSettings()}
    with closing(ProxyClient(["c0"], dict.fromkeys(settings, address), 0, tls=settings, begin="mysql")) as proxy:
        for name in ("n1", "n2"):
            host, port = proxy.addresses["c0", name]
            with closing(pymysql.connect(host=host, port=port, password=SECRET, **login)) as connection:
                cursor = connection.cursor()
                cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
                assert (cursor.fetchone() or ("", ""))[1].startswith("TLS_")
                cursor.execute("SELECT REPEAT('x', 300000), LENGTH(%s)", ("y" * 300_000,))
                assert cursor.fetchone() == ("x" * 300_000, 300_000)
            assert probe((host, port), STRANGERS_LOGIN, PATIENCE_S, greets=True) is not None
            with pytest.raises(pymysql.OperationalError, match="Access denied"):
                pymysql.connect(host=host, port=port, password="wrong", **login)
        host, port = proxy.addresses["c0", "n3"]  # its certificate is not of an authority of the system
        with pytest.raises(pymysql.OperationalError, match="Lost connection"):
            pymysql.connect(host=host, port=port, password=SECRET, **login)


def test_the_error_of_a_lock_does_not_show_the_password(tmp_path: Path) -> None:
    """The outputs of hooks do not, either."""
    from harness.clusters.servers.cluster import ServersCluster

    cluster: Any = object.__new__(ServersCluster)
    cluster._addresses = [parse_server(f"redis://app:${VARIABLE}@127.0.0.1")]
    assert cluster._redact(f"cannot reach redis://app:{SECRET}@127.0.0.1") == "cannot reach redis://app:***@127.0.0.1"
    cluster._addresses = [parse_server(f"redis+sentinel://127.0.0.1/mymaster?sentinel_password=${VARIABLE}")]
    assert cluster._redact(f"AUTH {SECRET}") == "AUTH ***"
