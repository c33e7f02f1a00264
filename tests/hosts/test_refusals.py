"""Runs on machines that are refused before anything starts, each with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cli.main import main
from harness.cli.run_shared import complete_for
from harness.clusters.ssh.links import Endpoint, rules_of, table_script
from harness.errors import USAGE, EnvironmentLacking, HarnessError, UsageError
from harness.plan import FaultSpec, Plan, refuse_untrusted
from harness.run.opening import open_ssh
from harness.run.plans.completion import complete

from .machines import Machines

FIVE = tuple(f"h{number}" for number in range(1, 6))


def on_hosts(lock: str = "redlock", **more: Any) -> Plan:
    fault = more.pop("fault", "")
    faults = (FaultSpec(fault, at=1.0, for_=1.0),) if fault else ()
    return Plan(**{"lock": lock, "cluster": "ssh", "hosts": FIVE, "faults": faults, **more}).check()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hosts": ()}, "hosts = \\[names for ssh\\] go together"),
        ({"cluster": "docker"}, "hosts = \\[names for ssh\\] go together"),
        ({"cluster": "sim", "hosts": (), "client_python": "/x"}, "client_python goes with cluster = 'ssh'"),
        ({"hosts": ("h1", "h1")}, "hosts: h1 is given twice"),
        ({"hosts": ("-oProxyCommand=reboot",)}, "hosts: expected a name for ssh, such as user@db1, got '-oProxy"),
        ({"client_hosts": ("h1 h2",)}, "client_hosts: expected a name for ssh"),
        ({"nodes": 6}, "nodes must be at most the number of hosts, 5, got 6"),
        ({"fault": "latency"}, "nemesis 'latency' needs traffic, which redis-independent on hosts cannot do; possible"),
        ({"fault": "disk-stall"}, "nemesis 'disk-stall' needs disk"),
        ({"lock": "etcd-mutex", "fault": "kill-amnesia"}, "a server of etcd that lost its data is not replaced"),
        ({"lock": "kazoo-lock"}, "cannot run on hosts; --cluster ssh runs etcd, redis-independent, redis-single"),
        ({"image": "redis:7"}, "--image goes with --cluster docker"),
        ({"server_options": {"release": "redis-6.2.14"}}, "on hosts the installed server is started"),
    ],
)
def test_a_plan_that_hosts_cannot_run_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        complete(on_hosts(**fields))


def test_a_fault_on_a_command_is_refused() -> None:
    spec = FaultSpec("client-pause", on="reply:SET", for_=1.0)
    with pytest.raises(UsageError, match="the traffic between clients and servers is not observed on hosts"):
        complete(on_hosts(faults=(spec,)))


def test_each_host_has_a_server_unless_the_kind_has_one() -> None:
    assert complete(on_hosts()).nodes == 5
    assert complete(on_hosts(nodes=3)).nodes == 3
    assert complete(on_hosts("redis-token")).nodes == 1


def test_a_stored_plan_reaches_no_machine_unless_the_user_allows_it() -> None:
    plan = on_hosts("redis-token", hosts=("db1",), host_setup="make", client_python="/py", ssh_config="cfg")
    with pytest.raises(UsageError, match="SSH host db1, Python /py, setup command make, ssh_config cfg"):
        refuse_untrusted(plan, "plan.toml", ())
    refuse_untrusted(plan, "plan.toml", ("db1", "make", "/py", "cfg"))


def test_a_plan_for_hosts_can_be_run_on_the_simulator_instead() -> None:
    plan, _ = complete_for(on_hosts("redis-token", host_setup="make"), "sim")
    assert (plan.cluster, plan.hosts, plan.host_setup, plan.nodes) == ("sim", (), "", 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cluster", "ssh"], "--cluster ssh and --hosts NAMES go together"),
        (["--hosts", "h1"], "--cluster ssh and --hosts NAMES go together"),
        (["--client-python", "/py"], "--client-python goes with --cluster ssh"),
        (["--cluster", "ssh", "--hosts", "h1", "--versions", "redis==5.2.1"], "not with --servers or --hosts"),
        (["--cluster", "ssh", "--hosts", "h1", "--nemesis", "disk-stall"], "nemesis 'disk-stall' needs disk"),
    ],
)
def test_wrong_options_are_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "redis-token", *words])
    assert ended.value.code == USAGE
    assert message in " ".join(capsys.readouterr().err.split())


def test_rules_drop_packets_where_the_program_of_the_connection_is_known() -> None:
    """h1 runs a server and a client: only the group id tells their packets apart."""
    ends = {
        "n1": Endpoint("h1", "10.0.0.1", 61000, [16379], 40001),
        "n2": Endpoint("h2", "10.0.0.2", 61001, [16379], 40002),
        "c0": Endpoint("h1", "10.0.0.1", 61002, [], 40003),
    }
    leaving, arriving = rules_of("h1", ends, [("c0", "n2"), ("n2", "c0")])
    assert leaving == ["meta skgid 61002 ip daddr 10.0.0.2 tcp dport { 16379, 40002 } drop"]
    assert arriving == ["ip saddr 10.0.0.2 tcp sport { 16379, 40002 } meta skgid 61002 drop"]
    leaving, arriving = rules_of("h2", ends, [("c0", "n2"), ("n2", "c0")])
    assert leaving == ["meta skgid 61001 ip daddr 10.0.0.1 tcp dport { 40003 } drop"]
    assert arriving == ["ip saddr 10.0.0.1 tcp sport { 40003 } meta skgid 61001 drop"]
    assert rules_of("h2", ends, [("c0", "n1")]) == ([], [])
    script = table_script("t", leaving, arriving)
    assert script.splitlines()[:2] == ["table inet t { flags owner; }", "delete table inet t"]
    assert script.count("61001") == 2


@pytest.mark.docker
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"hosts": ("u1", "u2", "u3"), "fault": "partition-node"},
            "cut: packet rules need root, and the SSH user is not",
        ),
        ({"hosts": ("h1", "h9")}, "the host h9: ssh: Could not resolve hostname h9"),
        ({"host_setup": "echo no such package; exit 3"}, "the setup command ended with status 3: no such package"),
        (
            {"client_python": "/opt/py/bin/python"},
            "the client program cannot load the lock: .*not found; /opt/py/bin/python",
        ),
        ({"client_python": "/usr/bin/python3"}, "No module named 'msgspec'; /usr/bin/python3 must have the libraries"),
        ({"hosts": ("h1",), "host_setup": "mv /usr/bin/redis-server /root/x"}, "h1 has no redis-server in its PATH"),
    ],
    ids=["not root", "no such host", "setup", "no such python", "no libraries", "no server"],
)
def test_a_machine_that_cannot_do_it_is_refused_with_the_reason(
    hosts: Machines, fields: dict[str, Any], message: str
) -> None:
    plan = complete(on_hosts(**{"hosts": ("h1", "h2"), "clients": 1, "ssh_config": str(hosts.config), **fields}))
    with pytest.raises(HarnessError, match=message) as refused:
        open_ssh(plan)
    hosts.sh("h1", "mv /root/x /usr/bin/redis-server 2>/dev/null || true")  # a link, which points nowhere from /root
    assert isinstance(refused.value, EnvironmentLacking)
    assert [hosts.remains(name) for name in ("h1", "h2")] == ["", ""]
