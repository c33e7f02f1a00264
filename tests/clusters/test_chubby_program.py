"""The program of a Chubby replica, as processes on loopback: what a cell keeps when its replicas are killed."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from harness.clusters.docker.services.chubby_program import DiskFile, Status
from harness.lock_impls.base import Endpoints, LockClass
from harness.sim.servers.chubby.protocol import PORT
from harness.sim.servers.chubby.replica import ReplicaDisk
from tests.locks import conformance
from tests.sim.chubby_cell import NAME, acquire, is_valid, open_file, release, sequencer

from .chubby_processes import LEASE_S, PATIENCE_S, ProcessCell, wait_for

ELECTION_S = 4.0
"""Time in which two replicas that may vote elect a master on an idle machine."""


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[ProcessCell]:
    with contextlib.closing(ProcessCell(tmp_path)) as made:
        for address in made.addresses:
            made.start(address)
        yield made


def test_a_lock_survives_its_master_and_is_the_same_to_the_next(cell: ProcessCell) -> None:
    first = cell.master()
    session = cell.session()
    file = open_file(session)
    assert acquire(session, file)
    shown = sequencer(session, file)
    cell.kill(first)
    assert cell.master() != first
    assert is_valid(session, shown)
    other = cell.session()
    assert not acquire(other, open_file(other))
    release(session, file)
    assert not is_valid(session, shown)
    session.close()
    other.close()


@pytest.mark.slow
def test_a_cell_of_which_every_replica_was_killed_still_has_its_locks(cell: ProcessCell) -> None:
    cell.master()
    session = cell.session()
    file = open_file(session)
    assert acquire(session, file)
    shown = sequencer(session, file)
    for address in cell.addresses:
        cell.kill(address)
    for address in cell.addresses:
        cell.start(address)
    assert is_valid(session, shown)
    status = cell.ask(cell.master(), NAME)
    assert status is not None
    assert status.holder is not None
    handle, left, client = status.holder
    assert (handle, client) == (file["id"], "127.0.0.1")
    assert left is not None
    assert 0 < left <= 1.02 * LEASE_S * 1e9
    session.close()


def lose(database: Path) -> None:
    database.unlink()


def flip_a_bit(database: Path) -> None:
    """Change a number to another one, so that the rest is still JSON."""
    data = database.read_bytes()
    place = data.index(b'"epoch":') + len(b'"epoch":')
    database.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


@pytest.mark.slow
@pytest.mark.parametrize("damage", [lose, flip_a_bit])
def test_a_replica_whose_data_are_gone_or_damaged_waits_for_others_before_it_votes(
    cell: ProcessCell, damage: Callable[[Path], None]
) -> None:
    cell.master()
    wait_for(lambda: all(saved(cell, address).epoch for address in cell.addresses) or None)
    for address in cell.addresses:
        cell.kill(address)
    lost, other, last = cell.addresses
    damage(cell.data(lost) / "database.json")
    cell.start(lost)
    cell.start(other)
    time.sleep(ELECTION_S)
    known = wait_for(lambda: cell.ask(lost)), wait_for(lambda: cell.ask(other))
    assert [status.master for status in known] == [None, None], "one vote of three"
    cell.start(last)
    wait_for(lambda: saved(cell, lost).voter or None)
    assert saved(cell, lost).rows == saved(cell, cell.master()).rows


def saved(cell: ProcessCell, address: str) -> ReplicaDisk:
    return DiskFile(cell.data(address)).load() or ReplicaDisk(voter=False)


@pytest.mark.slow
def test_a_paused_master_is_replaced_and_does_not_serve_when_it_resumes(cell: ProcessCell) -> None:
    first = cell.master()
    with cell.paused(first):
        second = cell.master()
    wait_for(lambda: _follows(cell.ask(first), second) or None)
    with socket.create_connection((first, PORT), PATIENCE_S) as link, link.makefile("rb") as answer:
        link.sendall(b'{"n": 1, "op": "CreateSession", "lease": null, "lock_delay": null}\n')
        assert msgspec.json.decode(answer.readline()) == {"n": 1, "error": "not-master", "master": second}


def _follows(status: Status | None, master: str) -> bool:
    return status is not None and status.master == master


@pytest.mark.slow
def test_a_mistake_in_the_program_ends_it(cell: ProcessCell) -> None:
    address = cell.master()
    with socket.create_connection((address, PORT), PATIENCE_S) as link:
        link.sendall(b'{"k": "beat"}\n')  # without an epoch, which no replica sends
        assert cell._processes[address].wait(PATIENCE_S) == 1


def test_a_database_is_written_only_after_a_change(tmp_path: Path) -> None:
    file, disk = DiskFile(tmp_path), ReplicaDisk(voter=True)
    assert file.load() is None
    disk.apply(1, [("f", {"mode": "free"})])
    file.save(disk)
    written = (tmp_path / "database.json").stat().st_mtime_ns
    file.save(disk)
    assert (tmp_path / "database.json").stat().st_mtime_ns == written
    disk.promised = 3
    file.save(disk)
    again = DiskFile(tmp_path).load()
    assert again is not None
    assert (again.promised, again.version, again.rows, again.voter) == (3, (0, 1), {"f": {"mode": "free"}}, True)


@pytest.fixture(scope="module")
def lasting_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCell]:
    """A cell in which sessions last as long as their clients ask for."""
    with contextlib.closing(ProcessCell(tmp_path_factory.mktemp("cell"), options={})) as made:
        for address in made.addresses:
            made.start(address)
        made.master()
        yield made


@pytest.mark.long  # the client waits 0.75 s for a master, which a loaded machine may take to elect another one
@pytest.mark.parametrize(
    ("lock", "prop"), [case for case in conformance.cases("chubby") if case.values[0].info.kinds == ("chubby",)]
)
def test_the_lock_conforms(lock: LockClass, prop: conformance.Property, lasting_cell: ProcessCell) -> None:
    prop(lock, Endpoints("chubby", tuple((address, PORT) for address in lasting_cell.addresses)))
