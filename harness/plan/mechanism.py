"""The mechanism of a documented failure, as data: its cause, the clients concerned and the order of decisive events.

A checker says that a lock failed. The mechanism says why, so that the same violation for another reason is noticed:
:mod:`harness.run.verdicts.mechanism` compares it with the history, the faults and the servers' keys of a run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from harness.errors import UsageError, unknown_name

Cause = Literal["service", "clock", "client"]
VIOLATION: Final = "violation"
"""The step at which the violation begins."""
ROLES: Final = ("first", "second", "any")
"""Subjects that stand for clients: the first and second one of the violation's evidence, and any client."""
CALLS: Final = ("acquire", "release", "extend", "check", "read", "write", "cas", "take", "mark", "add")
CALL_EVENTS: Final = tuple(f"{call}{phase}" for call in CALLS for phase in ("", ":invoke", ":fail", ":info"))
HOLD_EVENTS: Final = ("lease-end", "hold-end")
KEY_EVENTS: Final = ("key-set", "key-gone", "key-expired", "key-lost")
PROCESS_EVENTS: Final = ("crash", "exit")
CLIENT_EVENTS: Final = (*CALL_EVENTS, *HOLD_EVENTS, *KEY_EVENTS, *PROCESS_EVENTS)
FAULT_EVENTS: Final = ("inject", "heal")
_CLIENT: Final = re.compile(r"c\d+")


class Step(NamedTuple):
    """An event of a mechanism: ``c0 lease-end``, ``n1``'s part of ``c0 key-gone@n1``, ``client-pause inject``.

    ``subject`` is a client, a role or a fault; it is empty for :data:`VIOLATION`. ``host`` is empty for any."""

    subject: str
    event: str
    host: str = ""

    @property
    def of_keys(self) -> bool:
        """Return whether the event is one of the servers' keys, which only the simulator records completely."""
        return self.event in KEY_EVENTS

    @property
    def of_fault(self) -> bool:
        """Return whether the event is one of a fault."""
        return self.event in FAULT_EVENTS


class Mechanism(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Why a documented failure happens, for the first violation of the checkers in ``expect.invalid``.

    - ``cause``: who broke the promise. ``service``: the lock granted what it had promised to another client, or does
      not grant what is free. ``clock``: it kept its promise by a clock that was wrong. ``client``: a client acted after
      its lease.
    - ``between``: the clients of the violation's evidence, in its order: a name (``c0``), or ``any``.
    - ``order``: events that happen in this order. ``violation`` stands for the begin of the violation.
    - ``never``: events that do not happen between the first of ``order`` and the violation.

    An event is a subject and what happens to it:

    - ``c0 acquire``, ``c0 acquire:invoke``, ``:fail``, ``:info``, and likewise for every other call: as in ``on`` of a
      fault. ``first`` and ``second`` are clients of the evidence, and ``any`` is any client.
    - ``c0 lease-end``: the stated lease of its hold ends. ``c0 hold-end``: its hold ends.
    - ``c0 key-set``, ``c0 key-gone``: a server's key becomes its own, and is its own no longer. ``key-expired``: that
      happened at the end of the lease by the server's clock. ``key-lost``: it happened otherwise, and not by a message
      of this client. ``@n1`` behind it names the server.
    - ``c0 crash``, ``c0 exit``: its process ends.
    - ``client-pause inject``, ``client-pause heal``: a fault of the plan; ``@c0`` behind it names a host that it hits.
    """

    cause: Cause
    between: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def steps(self) -> list[Step]:
        """Return the steps of ``order``."""
        return [parse(text) for text in self.order]

    def forbidden(self) -> list[Step]:
        """Return the steps of ``never``."""
        return [parse(text) for text in self.never]

    def check(self, clients: int, faults: Collection[str]) -> None:
        """Raise UsageError with the nearest valid word for an event that the plan cannot have."""
        known = [f"c{number}" for number in range(clients)]
        if not self.order:
            raise UsageError("expect.mechanism.order must name at least one event")
        for where, texts in (("order", self.order), ("never", self.never)):
            for number, text in enumerate(texts):
                try:
                    _check_step(text, known, faults)
                except UsageError as error:
                    raise UsageError(f"expect.mechanism.{where}[{number}]: {error}") from error
        for number, name in enumerate(self.between):
            if name != "any" and name not in known:
                raise unknown_name(f"client in expect.mechanism.between[{number}]", name, [*known, "any"])


def parse(text: str) -> Step:
    """Return the step that the text names; UsageError if it is not a subject and an event."""
    if text == VIOLATION:
        return Step("", VIOLATION)
    subject, _, event = text.partition(" ")
    event, _, host = event.partition("@")
    if not event or " " in event:
        raise UsageError(f"expected a subject and an event, such as 'c0 lease-end', or 'violation', got {text!r}")
    return Step(subject, event, host)


def _check_step(text: str, clients: list[str], faults: Iterable[str]) -> None:
    step = parse(text)
    if step.event == VIOLATION:
        return
    if step.subject in (*clients, *ROLES):
        if step.event not in CLIENT_EVENTS:
            raise unknown_name("event of a client", step.event, CLIENT_EVENTS)
        if step.host and not step.of_keys:
            raise UsageError(f"only events of keys and faults name a host, got {text!r}")
    elif step.subject in faults:
        if step.event not in FAULT_EVENTS:
            raise unknown_name("event of a fault", step.event, FAULT_EVENTS)
    elif _CLIENT.fullmatch(step.subject):
        raise unknown_name("client", step.subject, clients)
    else:
        raise unknown_name("subject", step.subject, [*clients, *ROLES, *faults])


def mechanism_text(mechanism: Mechanism | None) -> str:
    """Return a mechanism in one line; empty without one."""
    if mechanism is None:
        return ""
    between = f", {' against '.join(mechanism.between)}" if mechanism.between else ""
    never = f"; never {', '.join(mechanism.never)}" if mechanism.never else ""
    return f"{mechanism.cause}{between}: {' → '.join(mechanism.order)}{never}"
