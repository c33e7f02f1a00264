"""Real ZooKeeper servers as processes of this machine, and the comparison with simulated ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from harness.fidelity.comparison import AnswerPair
from harness.fidelity.members import MembersPair, RealMembers, SimulatedKind, do_not_wait
from harness.fidelity.processes import LOOPBACK, Place, ServerProcess, free_ports, program_path
from harness.sim.servers.zookeeper.server import CLIENT_PORT

from .client import status
from .player import Player
from .steps import StepGenerator

JAR: Final = Path("/usr/share/java/zookeeper.jar")
_JAVA: Final = (
    "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "-Dzookeeper.preAllocSize=1024", "-Dzookeeper.forceSync=no",
    "-cp", f"{JAR}:/usr/share/java/slf4j-simple.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain",
)  # fmt: skip
_TICK_MS: Final = {1: 100, 3: 1000}
"""tickTime by number of servers. With several, a busy machine must not miss syncLimit ticks; sessions expire later."""
SIMULATED: Final = SimulatedKind("zookeeper", CLIENT_PORT, {"tick_ms": 500})
_PEER_PORTS: Final = 2
CHILDREN: Final = "Order of children after a restart"
_NAMES: Final = re.compile(r"\[('[^\[\]]*')\]")
"""A list of names in an answer."""


def configure(number: int, peers: Sequence[int], place: Place) -> None:
    """Write the configuration of server ``number``. ``peers`` are two ports for each server."""
    members = len(peers) // _PEER_PORTS
    lines = [
        f"dataDir={place.folder}", f"clientPort={place.ports[0]}", f"clientPortAddress={LOOPBACK}", "maxClientCnxns=0",
        f"tickTime={_TICK_MS[members]}", "minSessionTimeout=200", "maxSessionTimeout=60000", "initLimit=60",
        "syncLimit=60", "admin.enableServer=false", "4lw.commands.whitelist=srvr",
    ]  # fmt: skip
    if members > 1:
        lines += [
            f"server.{other + 1}={LOOPBACK}:{peers[2 * other]}:{peers[2 * other + 1]}" for other in range(members)
        ]
    place.folder.joinpath("zoo.cfg").write_text("\n".join(lines) + "\n")
    place.folder.joinpath("myid").write_text(f"{number + 1}\n")


def server_command(place: Place) -> list[str]:
    return [program_path("java"), *_JAVA, str(place.folder / "zoo.cfg")]


def _version(address: tuple[str, int]) -> str:
    found = re.search(r"^Zookeeper version: ([0-9.]+)", status(address))
    return found[1] if found else ""


@contextmanager
def start(members: int) -> Iterator[MembersPair]:
    """Start real servers and yield them with their simulation."""
    peers = free_ports(_PEER_PORTS * members) if members > 1 else (0, 0)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                ServerProcess(
                    "zookeeper", server_command, ready=do_not_wait, prepare=partial(configure, number, peers)
                )
            )
            for number in range(members)
        ]  # fmt: skip
        yield MembersPair(
            "ZooKeeper",
            RealMembers(processes),
            SIMULATED,
            version_of=_version,
            run=lambda members, steps: Player(members).run(steps),
            generate=lambda seed, members: StepGenerator(seed, members).steps(),
            known=known,
        )


def known(answers: AnswerPair) -> str:
    """Return the title of a known difference in ``docs/fidelity/zookeeper.md``, "" if the answers differ otherwise."""
    real, simulated = (_NAMES.sub(lambda found: str(sorted(found[1].split(", "))), answer) for answer in answers)
    return CHILDREN if real == simulated else ""
