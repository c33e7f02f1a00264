"""Hooks: the user's own shell commands that inject, observe and heal faults of servers that the harness does not run.

:class:`HookRunner` is the part of the cluster that runs them. Each strike has a thread of its own, so a strike returns
at once. A command has a process group of its own, which is killed when its time limit is over; what it leaves running
in the background is left alone.

The state that a fault changes is the output and the exit status of ``observe``. It is looked at before the clients
start, directly before ``command``, and then until it differs. A state that differs between the first two looks changes
by itself, and confirms nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.clusters.abilities.servers import HookedStrike
from harness.errors import UsageError

SHOWN: Final = 2000
"""Characters of a command's output that are recorded."""
POLL_S: Final = 0.1
"""Time between two looks at the state, seconds."""
NOT_STARTED: Final = (126, 127)
"""Exit statuses of a shell that could not start the command."""
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCommands:
    """The shell commands of one fault and their time limits (seconds); see :class:`harness.plan.Hook`."""

    command: str
    observe: str
    heal: str
    command_within: float
    observe_within: float
    heal_within: float


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that has ended. ``status`` is None if its time limit ended it; ``seconds`` is how long it took."""

    status: int | None
    output: str
    seconds: float

    @property
    def state(self) -> tuple[int | None, str]:
        return self.status, self.output

    @property
    def shows_state(self) -> bool:
        """Return whether a command that observes has run to its end, so that its result says something about the
        servers and not about the command itself."""
        return self.status is not None and self.status not in NOT_STARTED

    def facts(self) -> Facts:
        return {"status": self.status, "output": self.output, "seconds": round(self.seconds, 3)}


def run_command(command: str, limit_s: float, environment: Mapping[str, str]) -> CommandResult:
    """Run a shell command for at most ``limit_s`` seconds. Its output goes to a file, so that a program that it leaves
    in the background does not keep this waiting."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read(4 * SHOWN).decode(errors="replace").strip()[:SHOWN]
    return CommandResult(status, text, time.monotonic() - began)


class RunningStrike:
    """One strike of a fault by a hook; implements :class:`harness.clusters.abilities.servers.HookedStrike`."""

    def __init__(self, run: Callable[[str], CommandResult], hook: HookCommands, usual: CommandResult | None) -> None:
        self._run, self._hook, self._usual = run, hook, usual
        self._before: CommandResult | None = None
        self._command: CommandResult | None = None
        self._healed: CommandResult | None = None
        self._healing: threading.Thread | None = None
        self._lock = threading.Lock()
        self._observed = threading.Event()
        self._striking = threading.Thread(target=self._strike, name="hook", daemon=True)
        self._striking.start()

    def _strike(self) -> None:
        self._before = self._run("observe")
        self._command = self._run("command")

    def observe(self, over: threading.Event) -> tuple[str, Facts]:
        try:
            return self._compare(over if self._hook.heal else threading.Event())  # without a heal the effect stays
        finally:
            self._observed.set()

    def _compare(self, over: threading.Event) -> tuple[str, Facts]:
        self._striking.join()
        assert self._before is not None
        assert self._command is not None
        facts = {"before": self._before.facts(), "command": self._command.facts()}
        if self._command.status != 0:
            return f"the command to exit with 0 within {self._hook.command_within:g} s", facts
        if not self._before.shows_state:
            return f"an observation before the command that can run within {self._hook.observe_within:g} s", facts
        deadline = time.monotonic() + self._hook.observe_within
        while not (differs := self._differs(after := self._run("observe"))):
            if time.monotonic() >= deadline or over.wait(POLL_S):
                break
        facts["after"] = after.facts()
        if not differs:
            return f"another output or exit status of the observation within {self._hook.observe_within:g} s", facts
        if self._usual is not None and self._usual.state != self._before.state:
            facts["at_the_start"] = self._usual.facts()
            return "an observation that stays the same until the fault strikes", facts
        return "", facts

    def _differs(self, after: CommandResult) -> bool:
        assert self._before is not None
        return after.shows_state and after.state != self._before.state

    def heal(self) -> None:
        with self._lock:
            if self._healing is None and self._hook.heal:
                self._healing = threading.Thread(target=self._heal, name="hook heal", daemon=True)
                self._healing.start()

    def _heal(self) -> None:
        self._striking.join()
        self._observed.wait(self._hook.observe_within)  # a heal at once would hide the effect
        self._healed = self._run("heal")

    def healed(self) -> tuple[str, Facts]:
        if self._healing is None:
            return "", {}
        self._healing.join()
        assert self._healed is not None
        problem = f"the heal command to exit with 0 within {self._hook.heal_within:g} s"
        return "" if self._healed.status == 0 else problem, {"heal": self._healed.facts()}

    def finish(self) -> tuple[str, Facts]:
        """Heal, if that has not begun, and wait for it."""
        self._observed.set()
        self.heal()
        return self.healed()


class HookRunner:
    """The hooks of a run, by fault; implements :class:`harness.clusters.abilities.servers.ServerHooks`.

    ``servers`` are the hosts that a fault without a target strikes. ``place_of`` returns the present ``host:port`` of a
    host, "" if it is not known. ``redact`` removes secrets from outputs."""

    def __init__(
        self,
        hooks: Mapping[str, HookCommands],
        servers: Sequence[str],
        place_of: Callable[[str], str],
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._hooks, self._servers, self._place_of, self._redact = dict(hooks), list(servers), place_of, redact
        self._usual: dict[str, CommandResult] = {}
        self._strikes: list[RunningStrike] = []

    def prepare(self) -> None:
        """Observe the state of each fault before the clients start. Raises UsageError if an observation cannot run."""
        for fault in self._hooks:
            self._usual[fault] = usual = self._run(fault, "observe", self._servers, {})
            if not usual.shows_state:
                how = "takes longer than observe_within" if usual.status is None else f"ends with {usual.status}"
                raise UsageError(f"hooks.{fault}.observe {how} before the fault: {usual.output or 'no output'}")

    def hooked_faults(self) -> Collection[str]:
        return self._hooks.keys()

    def strike(self, fault: str, hosts: Sequence[str], params: Mapping[str, Any]) -> HookedStrike:
        usual = self._usual.pop(fault, None)  # a later strike may find what the one before has left
        if list(hosts) != self._servers:  # an observation of other hosts says something else
            usual = None
        strike = RunningStrike(lambda part: self._run(fault, part, hosts, params), self._hooks[fault], usual)
        self._strikes.append(strike)
        return strike

    def _run(self, fault: str, part: str, hosts: Sequence[str], params: Mapping[str, Any]) -> CommandResult:
        hook = self._hooks[fault]
        environment = {
            "HARNESS_FAULT": fault,
            "HARNESS_HOSTS": " ".join(hosts),
            "HARNESS_ADDRESSES": " ".join(filter(None, map(self._place_of, hosts))),
            "HARNESS_PARAMS": json.dumps(params),
        }
        found = run_command(getattr(hook, part), getattr(hook, f"{part}_within"), environment)
        return CommandResult(found.status, self._redact(found.output), found.seconds)

    def finish(self) -> list[str]:
        """Heal what is not healed, the last strike first, and wait for it. Return what failed."""
        problems = []
        for strike in reversed(self._strikes):
            problem, facts = strike.finish()
            if problem:
                output = facts["heal"]["output"]
                problems.append(f"expected {problem}, got {facts['heal']['status']}{f': {output}' if output else ''}")
        return problems
