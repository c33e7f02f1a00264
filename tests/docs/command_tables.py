"""Tables of facts about commands that the pages do not state. Each entry must fit a command of a page.

An address of a server, a file or a stored run that a command needs comes from ``surroundings.py``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

STATUSES: Final = {
    # docs/checking.md
    "harness check store/latest --model owner-mutex": 1,
    "harness run redlock --nemesis clock-jump --cluster sim": 1,
    # README.md, docs/how-to
    "harness hunt mylock:MyLock": 1,
    "harness replay counterexample.toml": 1,
    "harness hunt redis-token --exhaustive --clients 2 --faults 1": 1,
    "harness run asynclock:AsyncLock --nemesis client-pause": 1,
    "harness run etcd-mutex-unsafe --hold 1.5s": 1,
    "harness run mylock:MyLock --nemesis client-pause": 1,
    "harness run mysql-for-update --nemesis connection-reset": 1,
    "harness run mysql-unique --topology replicated --nemesis failover --ttl 10s --hold 4s": 1,
    "harness run postgres-advisory --topology replicated --nemesis failover --hold 4s": 1,
    "harness run redis-set-ex --hold 3s": 1,
    "harness run redis-token --nemesis client-pause": 1,
    "harness run redis-token --topology sentinel --nemesis failover --ttl 10s --hold 4s": 1,
    "harness run redis-token --workload inventory --nemesis clock-skew": 1,
    "harness run redlock --nemesis kill-amnesia": 1,
    # docs/concepts
    "harness hunt redlock --faults clock-jump --stop-at-first": 1,
    "harness run redis-fenced --nemesis client-pause --fencing off": 1,
    "harness run redis-setnx --nemesis client-crash": 1,
    "harness run redis-token --nemesis clock-jump": 1,
    "harness run zookeeper-sequential --nemesis client-pause --fencing off": 1,
    # docs/findings, where nothing else means that the failure is found
    "harness replay prl8.toml --allow redis_lock:Lock": 3,
    "harness run go-etcd-mutex --cluster docker --nemesis partition-node --time-limit 25s": 0,
    "harness run redsync --cluster docker --nemesis partition-node --time-limit 25s": 0,
    # docs/own-servers.md, docs/releases.md, docs/sweeps.md
    "harness run redis-py-lock --nemesis latency --hold 1500ms --versions 'redis==2.10.6,3.5.3,5.2.1,8.1.0'": 1,
    "harness run redis-token --servers redis+sentinel://127.0.0.1:26379,127.0.0.1:26380/mymaster --nemesis failover "
    "--ttl 10s --hold 4s": 1,
    "harness run redis-token --servers redis://127.0.0.1:6379 --nemesis client-pause": 1,
    "harness sweep etcd-mutex --ttl 1s,2s,3s,4s,5s --hold 1s --pause 4s": 1,
    "harness sweep redis-token --ttl 1s,2s,5s --hold 100ms,1s --pause 0,3s": 1,
}
"""Exit statuses of commands whose page describes the result in words: those that ``stated_status`` does not know."""

SHORTER: Final = (
    (
        r"^harness hunt redlock --faults clock-jump$",
        "harness hunt redlock --faults clock-jump --rounds 1 --schedules 4",
    ),
    (r"^harness hunt celery-redbeat (.*)$", r"harness hunt celery-redbeat \1 --rounds 2"),
    (r"^harness hunt redis-py-asyncio-lock (.*)$", r"harness hunt redis-py-asyncio-lock \1 --rounds 7"),
    (r"^harness hunt (pottery.*)$", r"harness hunt \1 --schedules 6"),
    (r"^harness hunt (?!.*--(?:rounds|budget|exhaustive|stop-at-first))(.*)$", r"harness hunt \1 --rounds 1"),
    (r"^harness hunt (.*)--exhaustive (.*)$", r"harness hunt \1--exhaustive \2 --stop-at-first"),
    (r"^harness run (.*)--runs 100$", r"harness run \1--runs 3"),
    (r"^harness nightly\b(?! --cluster docker)", "harness nightly --only rl-restart"),
    (r"--cluster both\b", "--cluster sim"),
    # Fresh seeds and all locks may show a failure that nobody knew, and then the command ends with 1.
    (r"--seed auto\b", "--seed 5"),
    (r"--explore 20m\b", "--explore 1s --explore-locks redis-fenced"),
    (r"^harness scenario ablate --all$", "harness scenario ablate rl-restart"),
    (r"^harness compare$", "harness compare --locks redis-token --nemeses client-pause --time-limit 10s"),
    (r"^harness compare (.*)--runs 5$", r"harness compare \1--runs 1 --time-limit 10s"),
    (r"^harness compare --cluster docker --nemeses none", "harness compare --locks etcd-mutex --nemeses none"),
    (r"^harness sweep (.*)$", r"harness sweep \1 --seeds 1"),
    (r"^harness fidelity$", "harness fidelity --server redis --seeds 1"),
    (r"^harness fidelity (.*)--budget 10m$", r"harness fidelity \1--seeds 1"),
    (r"^harness bisect redis-py-lock (.*)$", r"harness bisect redis-py-lock \1 --releases 2.10.6,5.2.1"),
    (r"(redis\+sentinel:.*)$", r"\1 --time-limit 25s"),
    (r"--versions 'redis==2\.10\.6,3\.5\.3,5\.2\.1,8\.1\.0'$", "--versions 'redis==2.10.6,5.2.1'"),
    (
        r"^(harness fidelity --run store/latest)$",
        r"harness run redis-token --nemesis kill --cluster docker --record-wire; \1",
    ),
    # other ports and folders than the usual ones, and a site that is small
    (r"^harness env clean$", "LOCK_HARNESS_ENVIRONMENTS=environments harness env clean"),
    (r"^harness serve$", "harness serve --port 0"),
    (r"^harness docs --serve$", "harness docs --serve --port 0 --site site"),
    (r"^harness docs --open$", "harness docs --open --site site"),
    (r"unix:/run/", "unix:"),
)
"""Replacements in commands that would take minutes, or that would need what a reader's machine has."""


class Elsewhere(NamedTuple):
    """Commands that are not run here, with the reason. Each names the file and the test, or another text in it, that
    does the same."""

    reason: str
    commands: dict[str, str]


ELSEWHERE: Final = (
    Elsewhere(
        "needs a server on another machine: the tests have the same on the loopback interface",
        {
            "harness run redis-token --servers 'rediss://app:$REDIS_PASSWORD@db1?ssl_ca_certs=/etc/ssl/our-ca.pem' "
            "--yes": "tests/servers/test_logins.py::test_a_run_on_a_redis_with_a_password_and_tls_leaves_no_password",
            "harness run postgres-row --servers 'postgresql://app:$PGPASSWORD@db1/locks?sslmode=verify-full' "
            "--yes": "tests/servers/test_logins.py::test_a_lock_runs_on_a_postgres_with_a_password_and_tls",
            "harness run etcd-mutex --servers 'etcds://app:$ETCD_PASSWORD@db1?cacert=/etc/ssl/our-ca.pem' "
            "--yes": "tests/servers/test_etcd_logins.py::test_a_lock_runs_on_an_etcd_with_a_password",
            "harness run redis-token --servers redis://db1 --yes --nemesis server-pause": "tests/servers/"
            "test_hooks.py::test_a_killed_run_leaves_its_fault_and_removes_its_keys_after_the_heal_of_the_user",
        },
    ),
    Elsewhere(
        "needs machines that ssh reaches: the tests have containers with an SSH server",
        {
            "harness run redlock --cluster ssh --hosts db1,db2,db3,db4,db5 --nemesis clock-jump": "tests/hosts/"
            "test_faults.py::test_faults_on_redis_are_what_commands_over_ssh_find",
            "harness run etcd-mutex --cluster ssh --hosts root@db1,root@db2,root@db3 --client-hosts app1,app2 "
            "--nemesis partition-node": "tests/hosts/test_faults.py::test_a_partition_of_etcd_is_what_its_members_say",
        },
    ),
    Elsewhere(
        "needs a program of the reader's own in an image of the reader's own: a test loads the page's class",
        {
            "harness run mymodule:Mine --cluster docker --nemesis client-pause": "tests/conformance/"
            "test_cli.py::test_the_documented_adapter_is_accepted",
        },
    ),
    Elsewhere(
        "needs the processes of the example beside it",
        {
            "harness check --follow recordings --model lease-mutex": "tests/examples/"
            "test_orders.py::test_a_bug_is_found_while_the_service_runs",
        },
    ),
    Elsewhere(
        "runs on containers in another test, or in the whole check of a commit",
        {
            "harness cluster clean": "tests/runs/test_docker_runs.py::"
            "test_a_cluster_started_by_command_stays_until_it_is_taken_down",
            "harness cluster down": "tests/runs/test_docker_runs.py::"
            "test_a_cluster_started_by_command_stays_until_it_is_taken_down",
            "harness cluster ps": "tests/runs/test_docker_runs.py::"
            "test_a_cluster_started_by_command_stays_until_it_is_taken_down",
            "harness cluster up redis-sentinel": "tests/runs/test_docker_runs.py::"
            "test_a_cluster_started_by_command_stays_until_it_is_taken_down",
            "harness compare --locks redis,etcd --cluster docker": ".ci/run::compare --locks redis-token,etcd-mutex",
            "harness compare --locks redis-token --nemeses client-pause,kill --cluster docker "
            "--images default,redis-6.2.14,valkey-9.1.2,redis:7.4": "tests/studies/test_compare_images.py::"
            "test_the_servers_that_ran_are_recorded_and_an_absent_image_is_unknown",
            "harness conformance redisson-lock": "tests/conformance/test_docker.py::"
            "test_lock_program_passes_every_conformance_check",
            "harness doctor": "tests/runs/test_docker_runs.py::test_the_doctor_finds_nothing_missing",
            "harness nightly --cluster docker": ".ci/run::nightly --suite smoke --cluster docker",
            "harness nightly --suite full --cluster docker --images default,redis-8.0.2,valkey-9.1.2,etcd-3.6.16 "
            "--html night": "tests/studies/test_server_images.py::test_one_scenario_on_two_servers_reports_both",
            "harness replay counterexample.toml --cluster docker": "tests/runs/test_replay_docker.py::"
            "test_a_simulated_failure_is_reproduced_on_containers",
            "harness run redlock --nemesis clock-jump --cluster docker": "tests/runs/test_docker_runs.py::"
            "test_a_clock_jump_breaks_redlock_without_changing_the_machines_clock",
            "harness run redlock --nemesis clock-jump --cluster docker --hold-on-violation": "tests/runs/"
            "test_hold_on_violation.py::test_a_held_run_leaves_frozen_containers_that_clean_removes",
        },
    ),
)


def shorter(command: str) -> str:
    """Return the command that is run."""
    for pattern, replacement in SHORTER:
        command = re.sub(pattern, replacement, command)
    return command


def elsewhere() -> dict[str, str]:
    """Return the commands that are not run here, with the place that does the same."""
    return {command: place for group in ELSEWHERE for command, place in group.commands.items()}
