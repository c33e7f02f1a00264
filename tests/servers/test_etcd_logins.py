"""An etcd of a user with TLS and passwords: runs on a real member, wrong logins, and invalid tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import run
from harness.cli.main import main
from harness.clusters.etcd_connection import EtcdConnection
from harness.clusters.servers.addresses import parse_server
from harness.clusters.servers.links import ProxyClient, probe
from harness.clusters.servers.services.etcd import EtcdServer
from harness.clusters.servers.tls import TlsSettings
from harness.errors import MISSING, EnvironmentLacking
from harness.fidelity.etcd.pair import server_command
from harness.fidelity.processes import PATIENCE_S, Place, ServerProcess
from harness.history.lock_keys import read_keys
from harness.lock_impls.base import Endpoints, LockError, Login
from harness.lock_impls.etcd_client import EtcdMembers, MemberUnanswered
from harness.plan import Plan

from .secured import LOST, SECRET, VARIABLE, certificate, leaks, run_with_fault

pytestmark = pytest.mark.usefixtures("password")
EVERY_KEY = "AA=="
"""As the begin and the end of a range: all keys."""


@dataclass(frozen=True)
class SecuredEtcd:
    """A member whose user ``app`` may read and write all keys; its user ``guest`` has no permission."""

    process: ServerProcess
    authority: Path | None = None

    @property
    def port(self) -> int:
        return self.process.place.address[1]

    def url(self, user: str = "app") -> str:
        scheme, options = ("etcds", f"?cacert={self.authority}") if self.authority else ("etcd", "")
        return f"{scheme}://{user}:${VARIABLE}@127.0.0.1:{self.port}{options}"


def set_passwords(port: int, authority: Path | None) -> None:
    tls = TlsSettings(ca_certs=str(authority)).context() if authority else None
    every_key = {"permType": "READWRITE", "key": EVERY_KEY, "range_end": EVERY_KEY}
    requests: Sequence[tuple[str, dict[str, Any]]] = [
        ("user/add", {"name": "root", "password": SECRET}), ("role/add", {"name": "root"}),
        ("user/grant", {"user": "root", "role": "root"}),
        ("user/add", {"name": "app", "password": SECRET}), ("role/add", {"name": "locks"}),
        ("role/grant", {"name": "locks", "perm": every_key}), ("user/grant", {"user": "app", "role": "locks"}),
        ("user/add", {"name": "guest", "password": SECRET}), ("enable", {}),
    ]  # fmt: skip
    with closing(EtcdConnection("127.0.0.1", port, answer_s=60.0, tls=tls)) as connection:
        for path, body in requests:
            connection.ask("POST", f"/v3/auth/{path}", body)


@contextmanager
def secured_etcd(folder: Path, *, tls: bool) -> Iterator[SecuredEtcd]:
    found, key = certificate(folder) if tls else (None, None)

    def command(place: Place) -> list[str]:
        plain = f"http://127.0.0.1:{place.ports[0]}"
        own = [*server_command(0, (0,), place), "--bcrypt-cost", "4"]  # hashes that a loaded machine computes in time
        if not tls:
            return own
        secured = [word.replace(plain, plain.replace("http", "https")) for word in own]
        return [*secured, "--cert-file", str(found), "--key-file", str(key)]

    with ServerProcess("etcd", command) as process:
        set_passwords(process.place.address[1], found)
        yield SecuredEtcd(process, found)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    with secured_etcd(tmp_path_factory.mktemp("etcd"), tls=False) as server:
        yield server


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    with secured_etcd(tmp_path_factory.mktemp("etcd-tls"), tls=True) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("tls", [True, False])
def test_a_lock_runs_on_an_etcd_with_a_password(tmp_path: Path, tls: bool) -> None:
    (tmp_path / "data").mkdir()
    with secured_etcd(tmp_path / "data", tls=tls) as server:
        result = run_with_fault("etcd-mutex", server.url(), tmp_path / "store", LOST)
        assert EtcdServer(parse_server(server.url())).foreign_keys() == []
    assert result.verdicts["faults"].valid is True, result.verdicts["faults"].explanation
    assert result.document["stats"]["acquires_ok"] > 5
    assert result.document["cluster"]["addresses"] == [f"{'etcds' if tls else 'etcd'}://127.0.0.1:{server.port}"]
    assert "left_behind" not in result.document["cluster"]
    (keys,) = (tmp_path / "store").glob("*/*/keys.jsonl")
    states, _ = read_keys(keys)
    assert any(state.owner for state in states)
    assert leaks(tmp_path / "store") == []


def status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_wrong_login_is_one_message(
    plain: SecuredEtcd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "wrong")
    assert status("run", "etcd-mutex", "--servers", plain.url()) == MISSING
    (message,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("harness: ")]
    assert f"the etcd at 127.0.0.1:{plain.port}: " in message
    assert message.endswith("authentication failed, invalid user ID or password")


def test_a_missing_login_or_permission_is_named(plain: SecuredEtcd) -> None:
    with pytest.raises(EnvironmentLacking, match=r"it needs a user and a password: etcd://USER:\$NAME@HOST"):
        run(Plan(lock="etcd-mutex", cluster="servers", servers=(f"etcd://127.0.0.1:{plain.port}",)))
    with pytest.raises(EnvironmentLacking, match="the user needs the permission readwrite for all keys"):
        run(Plan(lock="etcd-mutex", cluster="servers", servers=(plain.url("guest"),)))


def test_another_authority_is_refused(encrypted: SecuredEtcd) -> None:
    plan = Plan(lock="etcd-mutex", cluster="servers", servers=(encrypted.url().partition("?")[0],))
    with pytest.raises(EnvironmentLacking, match=r"TLS: .*certificate verify failed"):
        run(plan)


def test_a_member_answers_the_probes_of_the_proxy(plain: SecuredEtcd, encrypted: SecuredEtcd) -> None:
    peers = {"n1": ("127.0.0.1", plain.port), "n2": ("127.0.0.1", encrypted.port), "n3": ("127.0.0.1", encrypted.port)}
    tls = {"n2": TlsSettings(ca_certs=str(encrypted.authority)), "n3": TlsSettings()}
    with closing(ProxyClient(["c0"], peers, 0, tls=tls, begin=EtcdServer.TLS_BEGIN)) as proxy:
        answers = [probe(proxy.addresses["c0", name], EtcdServer.HELLO, PATIENCE_S) for name in peers]
    assert [answer is not None for answer in answers] == [True, True, False]


def test_a_client_logs_in_again_if_its_token_is_no_longer_valid(plain: SecuredEtcd) -> None:
    address = plain.process.place.address
    with (
        closing(EtcdMembers(Endpoints("etcd", (address,), login=Login("app", SECRET)), 30.0)) as members,
        closing(EtcdConnection(*address, answer_s=60.0, login=("root", SECRET))) as root,
    ):
        members.ask(lambda client: client.put("x", "1"))
        root.ask("POST", "/v3/auth/user/changepw", {"name": "app", "password": SECRET})
        with pytest.raises(LockError, match="UNAUTHENTICATED"):
            members.ask(lambda client: client.put("x", "2"))
        members.ask(lambda client: client.put("x", "3"))
        assert members.ask(lambda client: client.get("x"))[0] == b"3"
        members.ask(lambda client: client.delete("x"))


def test_a_login_that_is_not_answered_is_no_sent_request(plain: SecuredEtcd) -> None:
    login = Login("app", SECRET)
    members = EtcdMembers(Endpoints("etcd", (plain.process.place.address,), login=login), answer=0.5)
    plain.process.pause()
    try:
        with pytest.raises(MemberUnanswered) as unanswered:
            members.ask(lambda client: client.put("x", "1"))
    finally:
        plain.process.resume()
        members.close()
    assert not unanswered.value.sent
    assert members.unanswered == 0
