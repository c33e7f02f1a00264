"""Real etcd members as processes of this machine, and the comparison with simulated ones."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from harness.fidelity.members import Address, MembersPair, RealMembers, SimulatedKind, do_not_wait
from harness.fidelity.processes import LOOPBACK, Place, ServerProcess, free_ports, program_path
from harness.sim.servers.etcd.server import CLIENT_PORT

from .player import Player
from .steps import StepGenerator

PROGRAM: Final = "etcd"
SIMULATED: Final = SimulatedKind("etcd", CLIENT_PORT, {})


def server_command(number: int, peers: Sequence[int], place: Place) -> list[str]:
    urls = [f"http://{LOOPBACK}:{port}" for port in peers]
    client = f"http://{LOOPBACK}:{place.ports[0]}"
    return [
        program_path(PROGRAM), "--name", f"n{number}", "--data-dir", str(place.folder / "etcd"),
        "--initial-cluster", ",".join(f"n{other}={url}" for other, url in enumerate(urls)),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", urls[number], "--initial-advertise-peer-urls", urls[number],
        "--enable-v2=true",  # sherlock's lock speaks it
        "--logger", "zap", "--log-outputs", "stderr", "--log-level", "error",
    ]  # fmt: skip


def _version(address: Address) -> str:
    """Return the version that a member reports, "" if it does not answer."""
    connection = http.client.HTTPConnection(*address)
    try:
        connection.request("GET", "/version")
        return str(json.loads(connection.getresponse().read())["etcdserver"])
    except (OSError, http.client.HTTPException, ValueError):
        return ""
    finally:
        connection.close()


@contextmanager
def start(members: int) -> Iterator[MembersPair]:
    """Start real members and yield them with their simulation."""
    peers = free_ports(members)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(ServerProcess("etcd", partial(server_command, number, peers), ready=do_not_wait))
            for number in range(members)
        ]
        yield MembersPair(
            "etcd",
            RealMembers(processes),
            SIMULATED,
            version_of=_version,
            run=lambda members, steps: Player(members).run(steps),
            generate=lambda seed, members: StepGenerator(seed, members).steps(),
        )
