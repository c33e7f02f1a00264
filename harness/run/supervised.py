"""A simulated run from outside: it runs in a worker, and the harness records what the worker sends."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from harness.checkers.base import Json
from harness.documents.lock import LockFacts
from harness.history import HistoryWriter, Op
from harness.history.lock_keys import KeySink, KeyState
from harness.plan import Plan
from harness.run.processes import workers
from harness.trace.log import LoggedMessages, Place
from harness.worker.channel import Frame

from .plans.lock_facts import preloaded
from .progress import ProgressReporter
from .recorder import Recorder
from .runner import STOPPED, Stopped
from .simulated import SimulatedRequest
from .tapping import Command
from .violation_watch import ViolationWatch


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a run's entries, keys, commands and messages go, and who is told of its progress. None: nowhere.

    ``messages`` gets what :class:`harness.sim.message_log.MessageLog` logs."""

    writer: HistoryWriter | None = None
    keys: KeySink | None = None
    progress: ProgressReporter | None = None
    commands: list[Command] | None = None
    messages: LoggedMessages | None = None


class SupervisedRun:
    """A run in a worker. ``recorder`` has its history, which ends with a stop entry however the worker ends."""

    def __init__(self, plan: Plan, lock: LockFacts, destination: Destination) -> None:
        self._plan = plan
        self._lock = lock
        self._keys = destination.keys
        self._progress = destination.progress
        self._commands = destination.commands
        self._messages = destination.messages
        self.logs: dict[str, str] = {}
        """The logs of the servers, by host; none if the worker ended early."""
        self.recorder = Recorder(destination.writer, self._last_clock)
        if destination.progress is not None:
            self.recorder.listeners.append(destination.progress.on_entry)
        self._watch = ViolationWatch(self.recorder, in_order=True) if plan.stop_on_violation else None
        self._decode_op = msgspec.json.Decoder(Op).decode
        self._decode_key = msgspec.json.Decoder(KeyState).decode

    def run(self, *, interpreter: str = "", packages: tuple[str, ...] = ()) -> dict[str, str]:
        """Run the plan and return the versions of those ``packages`` that the worker has. If the worker ends before
        the run does, the history's last entry says how.

        Raises HarnessError if the history cannot be written, or for a mistake of ours in the worker.
        """
        versions: dict[str, str] = {}
        stop: Json = {"reason": "crashed"}
        try:
            result = workers.call(
                "harness.run.simulated:run",
                msgspec.json.encode(self._request(packages)),
                self._on_frame,
                interpreter=interpreter,
                preload=preloaded(self._plan.lock),
                interruptible=True,
            )
            versions = msgspec.json.decode(result, type=dict[str, str])
        except workers.WorkerDied as died:
            stop["doubt"] = str(died)
            if died.stack:
                stop["stack"] = list(died.stack)
        except Stopped:
            stop = {"reason": STOPPED}
        except KeyboardInterrupt:
            stop = {"reason": "interrupted"}
        finally:
            if self.recorder.failure is None and not self.recorder.history.nemesis("stop"):
                self.recorder.nemesis("stop", stop)
            self.recorder.close()
        return versions

    def _request(self, packages: tuple[str, ...]) -> SimulatedRequest:
        return SimulatedRequest(
            plan=self._plan,
            lock=self._lock,
            watches_keys=self._keys is not None,
            reports_progress=self._progress is not None,
            reports_commands=self._commands is not None,
            logs_messages=self._messages is not None,
            packages=packages,
        )

    def _on_frame(self, kind: Frame, body: bytes) -> None:
        if kind is Frame.ENTRY:
            self.recorder.add(self._decode_op(body))
            if self.recorder.failure is not None:
                raise self.recorder.failure
            if self._watch is not None and self._watch.found:
                raise Stopped
        elif kind is Frame.KEY and self._keys is not None:
            self._keys.write(self._decode_key(body))
        elif kind is Frame.MESSAGES and self._messages is not None:
            self._messages.batches.append(body)
        elif kind is Frame.PLACE and self._messages is not None:
            self._messages.places.append(msgspec.json.decode(body, type=Place))
        elif kind is Frame.COMMAND and self._commands is not None:
            self._commands.append(msgspec.json.decode(body, type=Command))
        elif kind is Frame.LOGS:
            self.logs = msgspec.json.decode(body, type=dict[str, str])
        elif kind is Frame.PROGRESS and self._progress is not None:
            elapsed, limit = msgspec.json.decode(body, type=tuple[float, float])
            self._progress.running(elapsed, limit)

    def _last_clock(self) -> tuple[int, int]:
        """Return the times of the last entry: the worker's clock ended with the worker."""
        history = self.recorder.history
        return (history.time[-1], history.wall[-1]) if len(history) else (0, 0)
