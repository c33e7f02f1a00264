"""Containers that stand for machines of a user: they run an SSH server, on an internal network, and nothing of ours.

Some have monotonic clocks of their own, in time namespaces. Tests look at them by commands over ssh of their own.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import docker
import pytest
from docker.models.containers import Container

from harness.clusters.docker.images import base_image

IMAGE: Final = "lock-harness/sshd:test"
DOCKERFILE: Final = Path(__file__).parent / "image"
LABEL: Final = "io.lock-harness.test-machines"
CAPABILITIES: Final = ["NET_ADMIN", "SYS_PTRACE", "SYS_ADMIN", "SYS_TIME"]
"""Those of root on a machine that the tests need. The last two are for the time namespaces, and SYS_TIME, which could
set the clock of this machine, is given up before anything else runs."""
AHEAD_S: Final = {"h2": 1000, "h3": 50_000}
"""How far the monotonic clocks of some machines are ahead, seconds."""


@dataclass(frozen=True)
class Machines:
    """Machines by name, and the ssh_config file with which ssh finds them. ``h1`` belongs to root, ``u1`` is ``h1`` as
    a user without privileges."""

    containers: Mapping[str, Container]
    config: Path

    @property
    def names(self) -> list[str]:
        return list(self.containers)

    def sh(self, name: str, command: str, *, check: bool = True) -> str:
        """Return the output of a shell command on a machine, over ssh."""
        words = ["ssh", "-F", str(self.config), name, command]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert not check or not done.returncode, (name, command, done)
        return done.stdout.strip()

    def address(self, name: str) -> str:
        return next(
            line.split()[3].partition("/")[0] for line in self.sh(name, "ip -o -4 addr").splitlines() if "eth" in line
        )

    def remains(self, name: str) -> str:
        """Return what a run has left on a machine: processes, packet rules and folders. Dead processes remain where the
        first process of a container does not wait for others."""
        look = (
            "ps -eo args= | grep -E 'redis-server|etcd |harness|lock-harness' | grep -v -e grep -e '<defunct>'; "
            "nft list ruleset 2>/dev/null | grep lock_harness; ls -d /var/tmp/lock-harness-* 2>/dev/null; true"
        )
        return self.sh(name, look)


@contextmanager
def machines(folder: Path, count: int = 5) -> Iterator[Machines]:
    """Start ``count`` machines, and remove them."""
    engine = docker.from_env()
    _build(engine)
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    name = f"lock-harness-machines-{secrets.token_hex(4)}"
    network = engine.networks.create(name, internal=True, labels={LABEL: name})
    containers: dict[str, Container] = {}
    try:
        for number in range(1, count + 1):
            machine = f"h{number}"
            containers[machine] = engine.containers.run(
                IMAGE, _command(machine), name=f"{name}-{machine}", hostname=machine, detach=True, network=name,
                cap_add=CAPABILITIES, labels={LABEL: name}, security_opt=["apparmor=unconfined"],
            )  # fmt: skip
            _authorize(containers[machine], (folder / "key.pub").read_text())
        yield Machines(containers, _configured(folder, key, containers))
    finally:
        for container in containers.values():
            container.remove(force=True)
        network.remove()


def _build(engine: docker.DockerClient) -> None:
    base = base_image.base(engine, lambda line: None)
    words = ["docker", "build", "-q", "--network", "host", "--build-arg", f"BASE={base}", "-t", IMAGE, str(DOCKERFILE)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"the image of the machines cannot be built: {done.stderr[-1000:]}")


def _command(machine: str) -> list[str]:
    sshd = ["setpriv", "--bounding-set=-sys_time", "--inh-caps=-sys_time", "/usr/sbin/sshd", "-D", "-e"]
    ahead = AHEAD_S.get(machine)
    return sshd if ahead is None else ["unshare", "--time", "--fork", f"--monotonic={ahead}", *sshd]


def _authorize(container: Container, key: str) -> None:
    script = (
        "for home in /root /home/plain; do mkdir -p $home/.ssh; "
        "printf '%s' \"$KEY\" > $home/.ssh/authorized_keys; done; "
        "chown -R plain /home/plain/.ssh; chmod 700 /root/.ssh /home/plain/.ssh; mkdir -p /run/sshd"
    )
    status, output = container.exec_run(["sh", "-c", script], environment={"KEY": key})
    assert not status, output


def _configured(folder: Path, key: Path, containers: Mapping[str, Container]) -> Path:
    lines = [
        f"IdentityFile {key}",
        "IdentitiesOnly yes",
        "StrictHostKeyChecking no",
        "UserKnownHostsFile /dev/null",
        "LogLevel ERROR",
    ]
    for name, container in containers.items():
        container.reload()
        (network,) = container.attrs["NetworkSettings"]["Networks"].values()
        lines += [f"Host {name} {name.replace('h', 'u')}", f"  HostName {network['IPAddress']}"]
    lines += ["Host u*", "  User plain", "Host h*", "  User root"]
    config = folder / "ssh_config"
    config.write_text("\n".join(lines) + "\n")
    return config
