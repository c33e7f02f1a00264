"""Mutants of the simulated Chubby cell and of its client library, each breaking one rule: a test must fail for each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.lock_impls.chubby_client import ChubbySession
from harness.sim.servers.chubby import files, master, server, sessions
from harness.sim.servers.chubby.master import Master
from harness.sim.servers.chubby.protocol import ns
from harness.sim.servers.chubby.replica import Replica, ReplicaDisk
from harness.sim.servers.chubby.sessions import SessionTable
from tests.sim import test_chubby as locks
from tests.sim import test_chubby_failover as failover
from tests.sim.chubby_cell import Cell

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, tuple[Callable[[Patch], None], Callable[[Cell], None]]] = {}


# Sessions.


class CountsFromTheAnswer(ChubbySession):
    """Counts the local lease from the arrival of the answer, not from the sending of the KeepAlive."""

    def _heard(self, reply: dict[str, object], began: float) -> None:
        super()._heard(reply, time.monotonic())


class NeverInJeopardy(ChubbySession):
    """Does not make calls wait while the session is in jeopardy."""

    def _wait_until_safe(self, deadline: float) -> bool:
        return True


class NoGrace(ChubbySession):
    """Gives up its session as soon as the local lease has ended."""

    @property
    def state(self) -> str:  # type: ignore[override]
        return "safe" if self.left() else "expired"


def noticed_by(*behaviours: Callable[[Cell], None]) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(mutant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        for behaviour in behaviours:
            MUTANTS[f"{mutant.__name__}-{behaviour.__name__}"] = (mutant, behaviour)
        return mutant

    return register


# Replicas.


@noticed_by(failover.isolated_master_stops_serving, failover.paused_master_checks_its_lease_when_resumed)
def master_without_a_lease(patch: Patch) -> None:
    patch.setattr(Replica, "serves", lambda replica: replica.leading)


@noticed_by(failover.restarted_replica_does_not_vote_at_once, failover.grants_survive_a_kill_of_all_replicas)
def votes_during_a_masters_lease(patch: Patch) -> None:
    def would_vote(replica: Replica, epoch: int, version: tuple[int, int]) -> bool:
        replica._no_vote_until = 0
        return original(replica, epoch, version)

    original = Replica._would_vote
    patch.setattr(Replica, "_would_vote", would_vote)
    patch.setattr(Replica, "_tick", _impatient(Replica._tick))


def _impatient(tick: Callable[[Replica], None]) -> Callable[[Replica], None]:
    def impatient(replica: Replica) -> None:
        replica._election_at = min(replica._election_at, replica.now() + ns(0.3))
        tick(replica)

    return impatient


@noticed_by(failover.replica_with_an_old_database_is_not_elected)
def elects_an_old_database(patch: Patch) -> None:
    original = Replica._would_vote
    patch.setattr(Replica, "_would_vote", lambda replica, epoch, version: original(replica, epoch, (epoch, 1 << 60)))


@noticed_by(failover.minority_elects_no_master)
def minority_is_enough(patch: Patch) -> None:
    original = Replica.__init__

    def init(replica: Replica, *args: Any, **more: Any) -> None:
        original(replica, *args, **more)
        replica._majority = 2

    patch.setattr(Replica, "__init__", init)


@noticed_by(failover.majority_without_disks_elects_no_master)
def votes_without_a_disk(patch: Patch) -> None:
    patch.setattr(server, "ReplicaDisk", lambda voter: ReplicaDisk(voter=True))


@noticed_by(failover.replica_with_a_lost_disk_is_restored)
def never_votes_again(patch: Patch) -> None:
    original = Replica._apply_message

    def apply_message(replica: Replica, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        voter = replica.disk.voter
        answer = original(replica, kind, message)
        replica.disk.voter = voter
        return {**answer, "voter": voter}

    patch.setattr(Replica, "_apply_message", apply_message)


@noticed_by(failover.late_message_does_not_revert_the_database)
def accepts_an_older_database(patch: Patch) -> None:
    original = Replica._apply_message

    def apply_message(replica: Replica, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        if kind == "state":
            replica.disk.seq = 0
        return original(replica, kind, message)

    patch.setattr(Replica, "_apply_message", apply_message)


@noticed_by(failover.short_failover_causes_no_jeopardy)
def commits_without_other_replicas(patch: Patch) -> None:
    """The master does not send its changes to other replicas."""
    original = Replica.commit

    def commit(replica: Replica, changes: Any, then: Callable[[], None]) -> None:
        original(replica, [], then)
        replica.disk.apply(replica.disk.seq, changes)

    patch.setattr(Replica, "commit", commit)


@noticed_by(locks.any_replica_names_the_master)
def does_not_name_the_master(patch: Patch) -> None:
    original = Replica._follow

    def follow(replica: Replica, master: str, epoch: int) -> None:
        original(replica, master, epoch)
        replica.master = None

    patch.setattr(Replica, "_follow", follow)


# Sessions.


@noticed_by(failover.short_failover_causes_no_jeopardy)
def serves_requests_of_any_epoch(patch: Patch) -> None:
    original = SessionTable.serve

    def serve(master: Master, call: Any) -> None:
        call.body = {**call.body, "epoch": master.epoch}
        original(master, call)

    patch.setattr(SessionTable, "serve", serve)


@noticed_by(failover.no_lease_ends_early_after_a_failover)
def short_lease_after_a_failover(patch: Patch) -> None:
    original = SessionTable.recover

    def recover(master: Master) -> None:
        original(master)
        for session in master.sessions.values():
            session.lease_end = master.replica.now() + ns(0.5)
            master._watch(session)

    patch.setattr(SessionTable, "recover", recover)


@noticed_by(failover.new_master_waits_for_all_sessions)
def does_not_wait_for_all_sessions(patch: Patch) -> None:
    patch.setattr(SessionTable, "_recovering", lambda master: False)


@noticed_by(failover.short_failover_causes_no_jeopardy)
def new_master_forgets_sessions(patch: Patch) -> None:
    patch.setattr(SessionTable, "recover", lambda master: None)


@noticed_by(failover.keep_alives_are_held_back_by_the_master)
def answers_keep_alives_at_once(patch: Patch) -> None:
    patch.setattr(sessions, "ANSWER_AT_FRACTION", 0.95)


@noticed_by(failover.keep_alives_are_held_back_by_the_master)
def keep_alives_do_not_extend(patch: Patch) -> None:
    original = SessionTable._answer_keep_alive
    patch.setattr(
        SessionTable, "_answer_keep_alive", lambda master, session, **more: original(master, session, extend=False)
    )


@noticed_by(locks.lock_of_failed_holder_is_free_after_lock_delay)
def ends_sessions_early(patch: Patch) -> None:
    original = SessionTable._watch

    def watch(master: Master, session: Any) -> None:
        session.lease_end -= ns(session.lease / 2)
        original(master, session)

    patch.setattr(SessionTable, "_watch", watch)


@noticed_by(locks.repeated_request_is_executed_once)
def executes_a_repeated_request(patch: Patch) -> None:
    def commit_and_answer(master: Master, call: Any, session: Any, changes: Any, result: Any) -> None:
        master.replica.commit(changes, lambda: call.answer({"ok": result}))

    patch.setattr(SessionTable, "_commit_and_answer", commit_and_answer)


# Locks and files.


@noticed_by(locks.lock_of_failed_holder_is_free_after_lock_delay, locks.lock_delay_restarts_under_a_new_master)
def no_lock_delay(patch: Patch) -> None:
    patch.setattr(
        Master,
        "_start_lock_delay",
        lambda master, name, seconds: master.host.call_later(0, master._grant_waiting, name),
    )


@noticed_by(locks.lock_delay_restarts_under_a_new_master)
def new_master_forgets_lock_delays(patch: Patch) -> None:
    patch.setattr(Master, "recover", SessionTable.recover)


@noticed_by(locks.released_lock_is_available_at_once)
def lock_delay_after_every_session_end(patch: Patch) -> None:
    original = SessionTable._end
    patch.setattr(SessionTable, "_end", lambda master, session, delay: original(master, session, session.lock_delay))


@noticed_by(locks.sequencers_grow_and_expire_with_the_hold)
def generations_do_not_grow(patch: Patch) -> None:
    original = files.grant

    def granted(*args: Any) -> Any:
        key, row = original(*args)
        return key, {**row, "generation": 1}

    patch.setattr(files, "grant", granted)


@noticed_by(locks.sequencers_grow_and_expire_with_the_hold)
def sequencers_without_generation(patch: Patch) -> None:
    def is_current(rows: files.Rows, shown: str) -> bool:
        _, mode, name = shown.split(":")
        row = files.file_of(rows, name)
        return row is not None and row["mode"] == mode

    patch.setattr(files, "is_current", is_current)


@noticed_by(locks.shared_holders_have_one_generation)
def shared_holders_exclude_each_other(patch: Patch) -> None:
    patch.setattr(files, "compatible", lambda row, mode, handle: row["mode"] == "free")


@noticed_by(locks.shared_holders_have_one_generation)
def first_shared_release_frees_the_lock(patch: Patch) -> None:
    original = files.release
    patch.setattr(
        files, "release", lambda rows, name, handles, delay=0.0: original(
            rows, name, list(rows[files.FILE + name]["holders"]), delay
        )
    )  # fmt: skip


@noticed_by(locks.exclusive_lock_has_one_holder)
def lock_has_any_number_of_holders(patch: Patch) -> None:
    patch.setattr(files, "compatible", lambda row, mode, handle: True)


@noticed_by(locks.exclusive_lock_has_one_holder)
def any_session_may_release(patch: Patch) -> None:
    patch.setattr(Master, "_require_held", Master._require_file)


@noticed_by(locks.waiters_acquire_in_order_of_request)
def last_waiter_is_first(patch: Patch) -> None:
    original = Master._grant_waiting

    def grant_waiting(master: Master, name: str) -> None:
        master._queues.get(name, []).reverse()
        original(master, name)

    patch.setattr(Master, "_grant_waiting", grant_waiting)


@noticed_by(locks.recreated_file_continues_its_numbers)
def recreated_file_restarts_its_numbers(patch: Patch) -> None:
    patch.setattr(files, "delete", lambda rows, name: [(files.FILE + name, None)])


@noticed_by(failover.closed_handle_stays_closed_in_the_new_epoch)
def closed_handles_are_recreated(patch: Patch) -> None:
    original = Master._remove_handle

    def close(master: Master, id_: str, name: str) -> Any:
        changes = original(master, id_, name)
        master._closed_handles.clear()
        return changes

    patch.setattr(Master, "_remove_handle", close)


@noticed_by(failover.closed_handle_stays_closed_in_the_new_epoch)
def handles_are_not_recreated(patch: Patch) -> None:
    original = Master._require_handle

    def handle(master: Master, call: Any, session: Any) -> Any:
        call.body["handle"] = {**call.body["handle"], "epoch": master.epoch}
        return original(master, call, session)

    patch.setattr(Master, "_require_handle", handle)


@noticed_by(failover.ephemeral_files_without_handles_are_deleted_after_a_minute)
def ephemeral_files_are_never_deleted(patch: Patch) -> None:
    patch.setattr(Master, "_remove_orphans", lambda master: None)


@noticed_by(failover.ephemeral_files_without_handles_are_deleted_after_a_minute)
def ephemeral_files_are_deleted_at_once(patch: Patch) -> None:
    patch.setattr(master, "REOPEN_S", 1.0)


# The client library.


def _client(patch: Patch, mutant: type[ChubbySession]) -> None:
    patch.setattr("tests.sim.chubby_cell.ChubbySession", mutant)


@noticed_by(failover.local_lease_ends_before_the_masters_lease)
def lease_counts_from_the_answer(patch: Patch) -> None:
    _client(patch, CountsFromTheAnswer)


@noticed_by(failover.calls_wait_in_jeopardy_even_if_a_master_is_reachable)
def calls_do_not_wait_in_jeopardy(patch: Patch) -> None:
    _client(patch, NeverInJeopardy)


@noticed_by(failover.calls_wait_in_jeopardy, failover.session_survives_within_the_grace_period)
def no_grace_period(patch: Patch) -> None:
    _client(patch, NoGrace)


@noticed_by(failover.session_expires_after_the_grace_period)
def endless_grace_period(patch: Patch) -> None:
    class Endless(ChubbySession):
        def _open(self, lease: Any, lock_delay: Any, grace: Any, deadline: float) -> None:
            super()._open(lease, lock_delay, 1e6, deadline)

    _client(patch, Endless)


@pytest.mark.few(10)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_noticed(mutant: str, monkeypatch: Patch) -> None:
    broken, behaviour = MUTANTS[mutant]
    broken(monkeypatch)
    cell = Cell()
    try:
        cell.run(behaviour)
    except (AttributeError, NameError):
        raise  # the mutant itself is broken
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - a mutant may fail in any way
        return
    assert cell.two_masters, "the mutant was not noticed"
