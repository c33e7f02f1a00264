"""Each rule of the simulated Chubby cell and of its client library, broken: a story must notice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.sim.servers.chubby import files, master, server, sessions
from harness.sim.servers.chubby.master import Master
from harness.sim.servers.chubby.protocol import ns
from harness.sim.servers.chubby.replica import Disk, Replica
from harness.sim.servers.chubby.sessions import Sessions
from lock_impls.chubby_client import Session
from tests.sim import test_chubby as locks
from tests.sim import test_chubby_failover as failover
from tests.sim.chubby_cell import Cell

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, tuple[Callable[[Patch], None], Callable[[Cell], None]]] = {}


# Sessions.


class CountsFromTheAnswer(Session):
    """The local lease counts from when the answer came, not from when the KeepAlive was sent."""

    def _heard(self, reply: dict[str, object], began: float) -> None:
        super()._heard(reply, time.monotonic())


class NeverInJeopardy(Session):
    """Calls do not wait while the session is in jeopardy."""

    def _wait_until_safe(self, deadline: float) -> bool:
        return True


class NoGrace(Session):
    """Gives its session up as soon as its local lease has ended."""

    @property
    def state(self) -> str:  # type: ignore[override]
        return "safe" if self.left() else "expired"


def noticed_by(*stories: Callable[[Cell], None]) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(mutant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        for story in stories:
            MUTANTS[f"{mutant.__name__}-{story.__name__}"] = (mutant, story)
        return mutant

    return register


# Replicas.


@noticed_by(failover.an_isolated_master_stops, failover.a_master_that_stood_still_looks_at_the_clock)
def a_master_without_a_lease(patch: Patch) -> None:
    patch.setattr(Replica, "serves", lambda replica: replica.leading)


@noticed_by(
    failover.a_replica_that_comes_back_does_not_vote_at_once, failover.all_that_was_granted_survives_a_kill_of_all
)
def votes_while_a_master_may_live(patch: Patch) -> None:
    def would_vote(replica: Replica, epoch: int, version: tuple[int, int]) -> bool:
        replica._bound_until = 0
        return original(replica, epoch, version)

    original = Replica._would_vote
    patch.setattr(Replica, "_would_vote", would_vote)
    patch.setattr(Replica, "_tick", _impatient(Replica._tick))


def _impatient(tick: Callable[[Replica], None]) -> Callable[[Replica], None]:
    def impatient(replica: Replica) -> None:
        replica._stands_at = min(replica._stands_at, replica.now() + ns(0.3))
        tick(replica)

    return impatient


@noticed_by(failover.an_old_database_is_not_elected)
def elects_an_old_database(patch: Patch) -> None:
    original = Replica._would_vote
    patch.setattr(Replica, "_would_vote", lambda replica, epoch, version: original(replica, epoch, (epoch, 1 << 60)))


@noticed_by(failover.a_minority_elects_nobody)
def a_minority_is_enough(patch: Patch) -> None:
    original = Replica.__init__

    def made(replica: Replica, *args: Any, **more: Any) -> None:
        original(replica, *args, **more)
        replica._majority = 2

    patch.setattr(Replica, "__init__", made)


@noticed_by(failover.a_majority_without_disks_elects_nobody)
def votes_without_a_disk(patch: Patch) -> None:
    patch.setattr(server, "Disk", lambda voter: Disk(voter=True))


@noticed_by(failover.a_lost_disk_is_filled)
def never_votes_again(patch: Patch) -> None:
    original = Replica._obey

    def obey(replica: Replica, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        voter = replica.disk.voter
        answer = original(replica, kind, message)
        replica.disk.voter = voter
        return {**answer, "voter": voter}

    patch.setattr(Replica, "_obey", obey)


@noticed_by(failover.what_comes_late_takes_nothing_back)
def takes_any_database(patch: Patch) -> None:
    original = Replica._obey

    def obey(replica: Replica, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        if kind == "state":
            replica.disk.seq = 0
        return original(replica, kind, message)

    patch.setattr(Replica, "_obey", obey)


@noticed_by(failover.a_short_failover_is_no_jeopardy)
def commits_without_the_others(patch: Patch) -> None:
    """Changes stay with the master."""
    original = Replica.commit

    def commit(replica: Replica, changes: Any, then: Callable[[], None]) -> None:
        original(replica, [], then)
        replica.disk.apply(replica.disk.seq, changes)

    patch.setattr(Replica, "commit", commit)


@noticed_by(locks.any_replica_names_the_master)
def does_not_say_who_is_master(patch: Patch) -> None:
    original = Replica._follow

    def follow(replica: Replica, master: str, epoch: int) -> None:
        original(replica, master, epoch)
        replica.master = None

    patch.setattr(Replica, "_follow", follow)


# Sessions.


@noticed_by(failover.a_short_failover_is_no_jeopardy)
def serves_calls_of_any_epoch(patch: Patch) -> None:
    original = Sessions.serve

    def serve(master: Master, call: Any) -> None:
        call.body = {**call.body, "epoch": master.epoch}
        original(master, call)

    patch.setattr(Sessions, "serve", serve)


@noticed_by(failover.no_lease_ends_early_after_a_failover)
def a_short_lease_after_a_failover(patch: Patch) -> None:
    original = Sessions.recover

    def recover(master: Master) -> None:
        original(master)
        for session in master.sessions.values():
            session.end = master.replica.now() + ns(0.5)
            master._watch(session)

    patch.setattr(Sessions, "recover", recover)


@noticed_by(failover.a_new_master_waits_for_all_sessions)
def does_not_wait_for_all_sessions(patch: Patch) -> None:
    patch.setattr(Sessions, "_recovering", lambda master: False)


@noticed_by(failover.a_short_failover_is_no_jeopardy)
def forgets_sessions(patch: Patch) -> None:
    patch.setattr(Sessions, "recover", lambda master: None)


@noticed_by(failover.keep_alives_wait_at_the_master)
def answers_keep_alives_at_once(patch: Patch) -> None:
    patch.setattr(sessions, "ANSWER_AT", 0.95)


@noticed_by(failover.keep_alives_wait_at_the_master)
def keep_alives_do_not_extend(patch: Patch) -> None:
    original = Sessions._answer_keep_alive
    patch.setattr(
        Sessions, "_answer_keep_alive", lambda master, session, **more: original(master, session, extend=False)
    )


@noticed_by(locks.a_failed_holders_lock_waits_for_the_lock_delay)
def ends_sessions_early(patch: Patch) -> None:
    original = Sessions._watch

    def watch(master: Master, session: Any) -> None:
        session.end -= ns(session.lease / 2)
        original(master, session)

    patch.setattr(Sessions, "_watch", watch)


@noticed_by(locks.a_request_is_executed_once)
def executes_a_request_again(patch: Patch) -> None:
    def do(master: Master, call: Any, session: Any, changes: Any, result: Any) -> None:
        master.replica.commit(changes, lambda: call.answer({"ok": result}))

    patch.setattr(Sessions, "_do", do)


# Locks and files.


@noticed_by(
    locks.a_failed_holders_lock_waits_for_the_lock_delay, locks.a_delay_left_behind_begins_anew_under_a_new_master
)
def no_lock_delay(patch: Patch) -> None:
    patch.setattr(Master, "_delay", lambda master, name, seconds: master.host.call_later(0, master._pump, name))


@noticed_by(locks.a_delay_left_behind_begins_anew_under_a_new_master)
def a_delay_is_forgotten(patch: Patch) -> None:
    patch.setattr(Master, "recover", Sessions.recover)


@noticed_by(locks.a_released_lock_can_be_had_at_once)
def a_delay_after_every_end(patch: Patch) -> None:
    original = Sessions._end
    patch.setattr(Sessions, "_end", lambda master, session, delay: original(master, session, session.delay))


@noticed_by(locks.sequencers_grow_and_end_with_the_hold)
def generations_do_not_grow(patch: Patch) -> None:
    original = files.granted

    def granted(*args: Any) -> Any:
        key, row = original(*args)
        return key, {**row, "generation": 1}

    patch.setattr(files, "granted", granted)


@noticed_by(locks.sequencers_grow_and_end_with_the_hold)
def sequencers_without_generation(patch: Patch) -> None:
    def is_current(rows: files.Rows, shown: str) -> bool:
        _, mode, name = shown.split(":")
        row = files.file_of(rows, name)
        return row is not None and row["mode"] == mode

    patch.setattr(files, "is_current", is_current)


@noticed_by(locks.sharers_have_one_generation)
def sharers_exclude_each_other(patch: Patch) -> None:
    patch.setattr(files, "compatible", lambda row, mode, handle: row["mode"] == "free")


@noticed_by(locks.sharers_have_one_generation)
def the_first_sharer_frees_it(patch: Patch) -> None:
    original = files.given_back
    patch.setattr(
        files, "given_back", lambda rows, name, handles, delay=0.0: original(
            rows, name, list(rows[files.FILE + name]["holders"]), delay
        )
    )  # fmt: skip


@noticed_by(locks.one_holder_of_an_exclusive_lock)
def everybody_gets_it(patch: Patch) -> None:
    patch.setattr(files, "compatible", lambda row, mode, handle: True)


@noticed_by(locks.one_holder_of_an_exclusive_lock)
def anybody_may_release(patch: Patch) -> None:
    patch.setattr(Master, "_held_row", Master._file)


@noticed_by(locks.waiters_get_it_in_their_order)
def the_last_waiter_is_first(patch: Patch) -> None:
    original = Master._pump

    def pump(master: Master, name: str) -> None:
        master._queues.get(name, []).reverse()
        original(master, name)

    patch.setattr(Master, "_pump", pump)


@noticed_by(locks.a_deleted_file_does_not_begin_again)
def a_deleted_file_begins_again(patch: Patch) -> None:
    patch.setattr(files, "deleted", lambda rows, name: [(files.FILE + name, None)])


@noticed_by(failover.a_closed_handle_stays_closed_in_the_new_epoch)
def closed_handles_come_back(patch: Patch) -> None:
    original = Master._close

    def close(master: Master, id_: str, name: str) -> Any:
        changes = original(master, id_, name)
        master._closed.clear()
        return changes

    patch.setattr(Master, "_close", close)


@noticed_by(failover.a_closed_handle_stays_closed_in_the_new_epoch)
def handles_are_not_recreated(patch: Patch) -> None:
    original = Master._handle

    def handle(master: Master, call: Any, session: Any) -> Any:
        call.body["handle"] = {**call.body["handle"], "epoch": master.epoch}
        return original(master, call, session)

    patch.setattr(Master, "_handle", handle)


@noticed_by(failover.ephemeral_files_wait_a_minute_for_their_handles)
def ephemeral_files_stay(patch: Patch) -> None:
    patch.setattr(Master, "_remove_orphans", lambda master: None)


@noticed_by(failover.ephemeral_files_wait_a_minute_for_their_handles)
def ephemeral_files_go_at_once(patch: Patch) -> None:
    patch.setattr(master, "REOPEN_S", 1.0)


# The client library.


def _client(patch: Patch, mutant: type[Session]) -> None:
    patch.setattr("tests.sim.chubby_cell.Session", mutant)


@noticed_by(failover.the_local_lease_ends_before_the_masters)
def a_lease_that_counts_from_the_answer(patch: Patch) -> None:
    _client(patch, CountsFromTheAnswer)


@noticed_by(failover.calls_wait_though_a_master_would_answer_them)
def calls_go_on_in_jeopardy(patch: Patch) -> None:
    _client(patch, NeverInJeopardy)


@noticed_by(failover.calls_wait_in_jeopardy, failover.within_the_grace_period_nothing_is_lost)
def no_grace_period(patch: Patch) -> None:
    _client(patch, NoGrace)


@noticed_by(failover.after_the_grace_period_all_is_lost)
def endless_grace(patch: Patch) -> None:
    class Endless(Session):
        def _open(self, lease: Any, lock_delay: Any, grace: Any, deadline: float) -> None:
            super()._open(lease, lock_delay, 1e6, deadline)

    _client(patch, Endless)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_noticed(mutant: str, monkeypatch: Patch) -> None:
    broken, story = MUTANTS[mutant]
    broken(monkeypatch)
    cell = Cell()
    try:
        cell.tell(story)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever stops a story is a notice
        return
    assert cell.two_masters, "the story ended well"
