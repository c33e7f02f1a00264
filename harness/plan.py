"""Plans: everything that decides a run, as data. The same plan on the simulator gives the same history, byte for byte.

A plan is stored as TOML (``plan.toml`` in the run's folder). Durations are seconds; TOML may also say ``"2s"``,
``"150ms"``. A plan that also says what is expected of its run (:class:`Expect`) is a scenario.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from .errors import UsageError, unknown_name

Discipline = Literal["trusting", "checking"]
Fencing = Literal["on", "off", "cas"]
BACKENDS: Final = ("sim", "docker")
LONGEST: Final = 1e8
"""Three years: no duration is longer."""
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"^\s*([-+]?\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h)?\s*$")


def seconds(text: str | float) -> float:
    """A duration as a number of seconds: ``"2s"``, ``"150ms"``, ``"-1.5"``, ``2``. Raises ValueError."""
    if isinstance(text, int | float):
        return float(text)
    found = _DURATION.match(text)
    if found is None:
        raise ValueError(f"expected a duration such as 2, '2s' or '150ms', got {text!r}")
    return float(found[1]) * _UNITS[found[2] or "s"]


class FaultSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"for_": "for"}):
    """When a fault happens, and to whom; ``params`` are the fault's own.

    Exactly one of ``at`` (seconds after the start), ``every`` (seconds, again and again) and ``on`` decides the
    moment. ``on`` is an event: ``"acquire"`` (one has succeeded; likewise any kind of call), ``"acquire:invoke"``,
    ``"acquire:fail"``, ``"acquire:info"``, ``"request:SET"`` (a client is about to send this command) or
    ``"reply:SET"`` (a server has executed it, and the answer is about to leave). ``client`` and ``node`` narrow the
    event to one client (number) or host (of a call: the client's; of a command: the server's), ``nth`` to its n-th
    occurrence, ``times`` says how often the trigger fires, ``every`` beside ``on`` how long it rests between. ``delay``
    puts time between the event and the fault. ``for_`` is how long it lasts (0: it is undone before the client that
    caused the event takes its next step); without it, until the run settles.
    """

    fault: str
    at: float | None = None
    every: float | None = None
    on: str | None = None
    client: int | None = None
    node: str | None = None
    nth: int = 1
    times: int = 1
    delay: float = 0.0
    for_: float | None = None
    tolerated: bool = False
    """The lock is expected to stay available throughout: liveness is judged in spite of the fault."""
    params: dict[str, Any] = {}


class Delay(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The ``nth`` message (from 1 on, in one direction) from host ``source`` to host ``target`` takes ``by`` seconds
    longer than it would: no fault, but what a network may do at any time. On the simulator only."""

    source: str
    target: str
    nth: int
    by: float


class Expect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a run of the plan is expected to show, by checkers' names.

    A known failure (``safe`` is false) is found by the checkers of ``invalid``, which must say so; nobody asks what
    others say, but for those of ``valid``. Of a ``safe`` plan every checker must say valid that is not in ``invalid``
    (the lock-level violation that a fence makes harmless) or in ``ignored``.
    """

    safe: bool
    invalid: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    within: float = 0.0
    """Seconds after the start by which the first violation has begun; 0 means the whole run."""

    def check(self, time_limit: float) -> None:
        """UsageError for what contradicts itself."""
        if not self.safe and not self.invalid:
            raise UsageError("expect.invalid must name the checkers that find the failure (or safe = true)")
        if not self.safe and self.ignored:
            raise UsageError("expect.ignored goes with safe = true: of a failure only the named checkers are asked")
        if "faults" in (*self.invalid, *self.ignored):
            raise UsageError("expect: 'faults' must say valid in any case: a run without its faults proves nothing")
        named = [*self.invalid, *self.valid, *self.ignored]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise UsageError(f"expect: {twice[0]!r} is named more than once in invalid, valid and ignored")
        if not 0 <= self.within <= time_limit:
            raise UsageError(f"expect.within must be from 0 to the time limit ({time_limit:g} s), got {self.within:g}")


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One run. Durations in seconds."""

    lock: str
    title: str = ""
    source: str = ""
    """Where the story comes from: article, paper, issue, manual."""
    about: str = ""
    """Why it happens, for readers."""
    cluster: str = "sim"
    kind: str = ""
    image: str = ""
    """On real clusters: the image that the servers run in; their own if nothing is said."""
    nodes: int = 0
    clients: int = 5
    keys: int = 1
    workload: str = "mutex"
    ttl: float = 2.0
    hold: float = 0.1
    rest: float = 0.05
    stagger: float = 0.0
    """Client n starts n times this late."""
    sections: int = 0
    """After how many acquires a client has done its work and ends; 0: none does before the time is over."""
    wait: float = 0.0
    """How long an acquire may wait; 0 means as long as the ttl."""
    discipline: Discipline = "trusting"
    fencing: Fencing = "off"
    time_limit: float = 30.0
    settle: float = 0.0
    """Fault-free time at the end; 0 means ttl plus slack plus a second, at most half of the run."""
    slack: float = 1.0
    seed: int = 0
    shuffle: int = 0
    """On the simulator: which of several threads that could run at the same moment runs first. 0: as they came; any
    other number: by chance, another one each."""
    delays: tuple[Delay, ...] = ()
    faults: tuple[FaultSpec, ...] = ()
    lock_options: dict[str, Any] = {}
    server_options: dict[str, Any] = {}
    holds: dict[str, float] = {}
    """Client name to its own hold time, where it differs from ``hold``."""
    ends: dict[str, int] = {}
    """Client name to the number of acquires after which it has done its work, where that differs from ``sections``;
    0: it takes no part."""
    expect: Expect | None = None
    runs_on: tuple[str, ...] = ()
    """Backends on which the story can happen; none named: on each that can do what its faults ask for."""
    smoke: bool = False
    """Is it one of the few that the smoke suite runs on real clusters?"""

    @property
    def acquire_wait(self) -> float:
        return self.wait or self.ttl

    @property
    def settle_time(self) -> float:
        return self.settle or min(self.time_limit / 2, self.ttl + self.slack + 1.0)

    def check(self) -> Plan:
        """The plan itself, or UsageError for a value that makes no sense."""
        self._check_numbers()
        _check_choices({"discipline": self.discipline, "fencing": self.fencing})
        for name in ("ttl", "hold", "time_limit"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be more than 0 seconds, got {getattr(self, name):g}")
        for name in ("clients", "keys"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("nodes", "wait", "rest", "slack", "settle", "stagger", "sections", "shuffle"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, got {getattr(self, name):g}")
        self._check_clients()
        for spec in self.faults:
            self._check_schedule(spec)
            if (spec.on is None and (spec.at is None) == (spec.every is None)) or (spec.on and spec.at is not None):
                raise UsageError(f"fault {spec.fault!r}: give one of 'at', 'every' and 'on'")
            _refuse_idle_words(spec)
        for delay in self.delays:
            if delay.nth < 1 or not 0 <= delay.by <= LONGEST:
                raise UsageError(f"delays: nth must be at least 1 and by from 0 to {LONGEST:g} seconds, got {delay}")
        if self.expect is not None:
            self.expect.check(self.time_limit)
        return self

    def _check_clients(self) -> None:
        """What is said of single clients is of those that there are."""
        there = [f"c{number}" for number in range(self.clients)]
        for client, hold in self.holds.items():
            if hold <= 0 or client not in there:
                raise UsageError(f"holds: expected c0 to {there[-1]} and more than 0 seconds, got {client} = {hold}")
        for client, acquires in self.ends.items():
            if acquires < 0 or client not in there:
                raise UsageError(f"ends: expected c0 to {there[-1]} and 0 acquires or more, got {client} = {acquires}")

    def _check_numbers(self) -> None:
        """No duration may be infinite, absurd or no number at all."""
        for name in ("ttl", "hold", "rest", "stagger", "wait", "time_limit", "settle", "slack"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not abs(value) <= LONGEST:
                raise UsageError(f"{name} must be seconds, at most {LONGEST:g}, got {value!r}")

    def _check_schedule(self, spec: FaultSpec) -> None:
        least = {"at": 0.0, "every": 1e-3, "for": 0.0, "delay": 0.0, "nth": 1, "times": 1}
        for name, low in least.items():
            value = getattr(spec, "for_" if name == "for" else name)
            if value is not None and not low <= value <= LONGEST:
                raise UsageError(f"fault {spec.fault!r}: {name} must be from {low:g} to {LONGEST:g}, got {value:g}")
        if spec.client is not None and not 0 <= spec.client < self.clients:
            raise UsageError(f"fault {spec.fault!r}: client must be from 0 to {self.clients - 1}, got {spec.client}")


def _refuse_idle_words(spec: FaultSpec) -> None:
    """What speaks of an event means nothing at a time, and a plan must not say what is not done."""
    defaults = {"client": None, "node": None, "nth": 1, "times": 1, "delay": 0.0}
    idle = [name for name, default in defaults.items() if getattr(spec, name) != default]
    if spec.on is None and idle:
        when = "at" if spec.at is not None else "every"
        raise UsageError(f"fault {spec.fault!r}: {', '.join(idle)} go with an event ('on'), not with {when!r}")


_DURATIONS: Final = frozenset(
    {
        "ttl",
        "hold",
        "rest",
        "wait",
        "time_limit",
        "settle",
        "slack",
        "stagger",
        "at",
        "every",
        "delay",
        "for",
        "seconds",
        "jitter",
        "within",
        "by",
    }
)


def _with_seconds(value: Any, where: str, key: str = "") -> Any:
    """The same data with durations as floats."""
    if isinstance(value, dict):
        of_holds = key == "holds"
        return {
            name: _with_seconds(item, f"{where}.{name}" if where else name, "hold" if of_holds else name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_with_seconds(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if key in _DURATIONS and not isinstance(value, bool):
        try:
            return seconds(value)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{where}: {error}") from error
    return value


def _check_choices(data: dict[str, Any]) -> None:
    """Say what there is to choose from, before msgspec says less."""
    for number, backend in enumerate(data.get("runs_on") or ()):
        if backend not in BACKENDS:
            raise UsageError(f"runs_on[{number}] must be one of {', '.join(BACKENDS)}, got {backend!r}")
    for name, choices in (("discipline", get_args(Discipline)), ("fencing", get_args(Fencing))):
        if name in data and data[name] not in choices:
            raise UsageError(f"{name} must be one of {', '.join(choices)}, got {data[name]!r}")


def _refuse_unknown_keys(data: dict[str, Any]) -> None:
    """Say what the nearest key is, where msgspec would name the wrong one only."""
    tables: list[tuple[str, Any, type[msgspec.Struct]]] = [("", data, Plan), ("expect.", data.get("expect"), Expect)]
    lists: tuple[tuple[str, type[msgspec.Struct]], ...] = (("faults", FaultSpec), ("delays", Delay))
    for name, struct in lists:
        items = data.get(name)
        for number, item in enumerate(items if isinstance(items, list | tuple) else ()):
            tables.append((f"{name}[{number}].", item, struct))
    for where, table, kind in tables:
        known = kind.__struct_encode_fields__
        for key in table if isinstance(table, dict) else ():
            if key not in known:
                raise unknown_name("key", f"{where}{key}", [f"{where}{name}" for name in known])


def decode(data: dict[str, Any]) -> Plan:
    """A plan from parsed TOML or JSON; UsageError names the key at fault and what was expected."""
    _refuse_unknown_keys(data)
    _check_choices(data)
    if "lock" not in data:
        raise UsageError('a plan needs a lock, as in: lock = "redis-token"')
    try:
        return msgspec.convert(_with_seconds(data, ""), Plan).check()
    except msgspec.ValidationError as error:
        raise UsageError(told(error)) from error


def told(error: msgspec.ValidationError) -> str:
    """What msgspec found wrong, in words for people: the key first, and no code."""
    said, _, where = str(error).replace("`", "").partition(" - at $")
    where = where.lstrip(".")
    return f"{where}: {said[0].lower()}{said[1:]}" if where else said


def load(path: Path) -> Plan:
    """Read a plan; UsageError names the file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read the plan {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a text file (byte {error.start} is not UTF-8): expected TOML") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    try:
        return decode(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def dump(plan: Plan) -> str:
    """The plan as TOML, defaults left out."""
    import tomli_w  # clients in containers read plans, and do not have it

    return tomli_w.dumps(msgspec.to_builtins(plan))
