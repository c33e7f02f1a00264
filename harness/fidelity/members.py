"""The members of a real or a simulated cluster, with the faults that both sides of a comparison suffer alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, Protocol

from harness.clusters.base import Checkpoint
from harness.clusters.sim.cluster import SimCluster

from .comparison import AnswerPair, Step
from .processes import PATIENCE_S, Place, ServerProcess

Address = tuple[str, int]
POLL_S: Final = 0.02
NO_ANSWER: Final = "no answer"
_CLIENT: Final = "c0"
_EVENTS: Final = 50_000_000


class Members(Protocol):
    """Members by number, from 0. A fault takes effect before its method returns."""

    @property
    def addresses(self) -> Sequence[Address]:
        """Addresses for clients."""

    def pause(self, member: int) -> None: ...

    def resume(self, member: int) -> None: ...

    def kill(self, member: int) -> None: ...

    def start(self, member: int, *, with_data: bool) -> None: ...


class RealMembers:
    """Members that are processes of this machine."""

    def __init__(self, processes: Sequence[ServerProcess]) -> None:
        self._processes = processes
        self.addresses = [process.place.address for process in processes]

    def pause(self, member: int) -> None:
        self._processes[member].pause()

    def resume(self, member: int) -> None:
        self._processes[member].resume()

    def kill(self, member: int) -> None:
        self._processes[member].kill()

    def start(self, member: int, *, with_data: bool) -> None:
        if not with_data:
            self._processes[member].lose_data()
        self._processes[member].start()


class SimMembers:
    """Members of a simulated cluster."""

    def __init__(self, cluster: SimCluster, port: int) -> None:
        self._cluster = cluster
        self._names = [host.name for host in cluster.hosts if host.role == "server"]
        self.addresses = [(name, port) for name in self._names]

    def pause(self, member: int) -> None:
        self._cluster.pause(self._names[member])

    def resume(self, member: int) -> None:
        self._cluster.resume(self._names[member])

    def kill(self, member: int) -> None:
        self._cluster.kill(self._names[member])

    def start(self, member: int, *, with_data: bool) -> None:
        self._cluster.start(self._names[member], wiped=not with_data)


class SimulatedKind(NamedTuple):
    """A kind of simulated cluster, the port of its members, and the options of its servers."""

    name: str
    port: int
    options: dict[str, Any]


def simulate(kind: SimulatedKind, members: int, run: Callable[[Members], Iterator[str]]) -> list[str]:
    """Return the answers that ``run`` gets from a new simulated cluster, in which it runs on a client's host."""
    answers: list[str] = []
    cluster = SimCluster(
        kind=kind.name,
        nodes=members,
        clients=1,
        seed=0,
        resource=lambda line: line,
        options=kind.options,
        program=_no_program,
    )
    cluster.give_up_after(_EVENTS)

    def client(checkpoint: Checkpoint) -> None:  # noqa: ARG001 - the client is never paused
        answers.extend(run(SimMembers(cluster, kind.port)))

    def control() -> None:
        join = cluster.spawn(_CLIENT, client)
        while not join(PATIENCE_S):
            pass

    cluster.run(control)
    return answers


class MembersPair:
    """A real cluster and a simulated one; see :class:`harness.fidelity.comparison.ServerPair`.

    It waits until each real member reports its version. ``run`` yields the answers of members, real or simulated, to
    steps; ``generate`` returns the steps for a seed and a number of members. ``known`` returns the title of a known
    difference, "" if the answers differ otherwise.
    """

    def __init__(
        self,
        name: str,
        real: RealMembers,
        kind: SimulatedKind,
        *,
        version_of: Callable[[Address], str],
        run: Callable[[Members, Sequence[Step]], Generator[str, None, None]],
        generate: Callable[[int, int], list[Step]],
        known: Callable[[AnswerPair], str] = lambda answers: "",  # noqa: ARG005
    ) -> None:
        wait_until(lambda: all(version_of(address) for address in real.addresses), f"{name}'s version")
        self.version = f"{name} {version_of(real.addresses[0])}"
        self._real = real
        self._kind = kind
        self._members = len(real.addresses)
        self._run_steps = run
        self._generate = generate
        self._known = known

    def steps(self, seed: int) -> list[Step]:
        return self._generate(seed, self._members)

    def run(self, steps: Sequence[Step]) -> Iterator[AnswerPair]:
        simulated = simulate(self._kind, self._members, lambda members: self._run_steps(members, steps))
        with closing(self._run_steps(self._real, steps)) as real:
            yield from in_pairs(real, simulated)

    def known(self, step: Step, answers: AnswerPair) -> str:  # noqa: ARG002
        return self._known(answers)


def no_answer(error: Exception) -> str:
    """Return the answer to a step that failed. It is the last one."""
    return f"{NO_ANSWER}: {type(error).__name__}: {error}"


def in_pairs(real: Iterator[str], simulated: Iterable[str]) -> Iterator[AnswerPair]:
    """Yield the answers of both sides. A step that fails on both sides differs too: a comparison must not end there."""
    for answers in map(AnswerPair, real, simulated):
        if answers.real.startswith(NO_ANSWER):
            yield answers._replace(real=f"real server: {answers.real}")
        else:
            yield answers


def _no_program(*_: Any) -> None:
    """Do nothing: programs are spawned, not launched."""


def do_not_wait(_place: Place) -> bool:
    """Return True: the players wait until members serve clients, and one member alone never does."""
    return True


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll until the condition holds. A slow machine does not miss the limit."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE_S:.0f} s")
        time.sleep(POLL_S)
