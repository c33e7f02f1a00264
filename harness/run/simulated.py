"""What runs in the worker of a simulated run: the cluster, its clients and the nemesis. Entries go to the harness.

It runs on any Python that a user chose, so it imports the simulator and no other library.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import msgspec

from harness.clusters.abilities import LOCK_KEYS
from harness.clusters.base import Cluster
from harness.clusters.sim.cluster import SimCluster
from harness.documents.lock import LockFacts
from harness.history import Op
from harness.history.lock_keys import KeyState
from harness.lock_impls.asynchronous import CURRENT_CALL
from harness.plan import Plan
from harness.sim.message_log import Entry, MessageLog
from harness.sim.patches import virtual, why_unsupported
from harness.sim.places import Place, PlaceFinder
from harness.worker.channel import Channel, Frame
from harness.worker.client_program import find_lock
from harness.worker.guard import files
from harness.worker.lock_code import code_of
from harness.worker.versions import installed_versions

from .doubts import doubts
from .opening import open_simulated
from .plans.lock_facts import facts_of
from .runner import Runner
from .tapping import Command, TappedCluster


class SimulatedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of :func:`run`. ``plan`` is completed. ``packages`` are distributions whose versions are wanted."""

    plan: Plan
    lock: LockFacts
    watches_keys: bool = False
    reports_commands: bool = False
    logs_messages: bool = False
    reports_progress: bool = False
    packages: tuple[str, ...] = ()


class _EntrySender:
    """Stands for the writer of the history's file: the harness writes it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._encode = msgspec.json.Encoder().encode

    def write(self, op: Op) -> None:
        self._channel.send(Frame.ENTRY, self._encode(op))

    def close(self) -> None: ...


class _ProgressSender:
    """Stands for the harness's progress reporter, which gets the entries from the history."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def on_entry(self, op: Op) -> None: ...

    def running(self, elapsed: float, limit: float) -> None:
        self._channel.send(Frame.PROGRESS, msgspec.json.encode((elapsed, limit)))


def prepare() -> None:
    """Search what is loaded for the functions that the simulator replaces. The result is kept, and takes a third of the
    time of a short run."""
    if why_unsupported() is None:
        with virtual():
            pass


def run(argument: bytes, channel: Channel) -> bytes:
    """Run a :class:`SimulatedRequest`; send each entry, the logs and, if wanted, each change of a key; return the
    versions of what was imported, by distribution. SIGINT ends the run early, and its history says so."""
    request = msgspec.json.decode(argument, type=SimulatedRequest)
    plan = request.plan
    files.clear()
    cluster = open_simulated(plan)
    if request.watches_keys:
        send_keys(cluster, plan, channel)
    log = _message_log(cluster, channel) if request.logs_messages else None
    tapped = TappedCluster(cluster, _command_sender(channel)) if request.reports_commands else cluster
    runner = Runner(
        plan,
        request.lock,
        cast("Cluster", tapped),
        writer=_EntrySender(channel),
        progress=_ProgressSender(channel) if request.reports_progress else None,
        doubts=partial(doubts, plan, cluster, separately=True),
    )
    try:
        with _interrupted_by_sigint(cluster), contextlib.nullcontext() if log is None else log.places.watching_tasks():
            runner.run()
    finally:
        if log is not None:
            log.flush()
        channel.send(Frame.LOGS, msgspec.json.encode(cluster.logs(runner.recorder.history.origin)))
    return msgspec.json.encode(installed_versions(request.packages))


def facts(argument: bytes, channel: Channel) -> bytes:
    """Return the :class:`LockFacts` of the lock whose name is the argument; its module is imported for them."""
    del channel
    return msgspec.json.encode(facts_of(find_lock(argument.decode())))


def info(argument: bytes, channel: Channel) -> bytes:
    """Return the :class:`harness.lock_impls.base.LockInfo` of the lock whose name is the argument."""
    del channel
    return msgspec.json.encode(find_lock(argument.decode()).info)


def _message_log(cluster: SimCluster, channel: Channel) -> MessageLog:
    encode = msgspec.msgpack.Encoder().encode

    def send(entries: list[Entry]) -> None:
        channel.send(Frame.MESSAGES, encode(entries))

    def send_place(place: Place) -> None:
        channel.send(Frame.PLACE, msgspec.json.encode(place))

    return cluster.log_messages(PlaceFinder(code_of, send_place), CURRENT_CALL.get, send)


def _command_sender(channel: Channel) -> Callable[[Command], None]:
    encode = msgspec.json.Encoder().encode
    return lambda command: channel.send(Frame.COMMAND, encode(command))


def installed(argument: bytes, channel: Channel) -> bytes:
    """Return the versions of Python and of the distributions whose names are the argument, a list in JSON."""
    del channel
    return msgspec.json.encode(installed_versions(msgspec.json.decode(argument, type=tuple[str, ...])))


def send_keys(cluster: SimCluster, plan: Plan, channel: Channel) -> None:
    """Send each change of a lock's key on a server, if this kind of cluster can tell."""
    watch = LOCK_KEYS.find(cluster)
    if watch is None:
        return
    encode = msgspec.json.Encoder().encode

    def send(state: KeyState) -> None:
        channel.send(Frame.KEY, encode(state))

    watch.watch_keys([f"k{number}" for number in range(plan.keys)], send)


@contextlib.contextmanager
def _interrupted_by_sigint(cluster: SimCluster) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: cluster.interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
