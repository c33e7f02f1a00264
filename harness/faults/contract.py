"""Check what a user's fault does when it is injected, observed and healed; ours are trusted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from harness.errors import HarnessError, UsageError

from .base import Damage, Fault, InjectionContext, Observation
from .catalogue import FAULTS


class FaultError(UsageError):
    """A user's fault raised, or returned something that no fault may. The message names it."""


def inject(name: str, fault: Fault, scene: InjectionContext) -> Damage:
    """Inject the fault called ``name``.

    A user's raises :class:`FaultError` if it is broken, now or when its damage is observed or healed.
    """
    if name in FAULTS.own:
        return fault.inject(scene)
    damage: Damage = _call_checked(name, "inject", lambda: fault.inject(scene))
    found = _flaw(damage, {host.name for host in scene.cluster.hosts})
    if found:
        raise FaultError(f"the fault {name}: inject returned a malformed Damage: {found}")
    return dataclasses.replace(
        damage,
        observe=lambda: _validated_observation(name, "observe", damage.observe),
        heal=lambda: _call_checked(name, "heal", damage.heal),
        healed=lambda: _validated_observation(name, "healed", damage.healed),
    )


def _call_checked(name: str, part: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except HarnessError as error:
        raise FaultError(f"the fault {name}: {part}: {error}") from error
    except (Exception, SystemExit) as error:
        raise FaultError(f"the fault {name}: {part} raised {type(error).__name__}: {error}") from error


def _validated_observation(name: str, part: str, call: Callable[[], Observation]) -> Observation:
    seen = _call_checked(name, part, call)
    found = _flaw_of(seen)
    if found:
        raise FaultError(f"the fault {name}: {part} returned a malformed Observation: {found}")
    assert isinstance(seen, Observation)
    return seen


def _flaw(damage: object, hosts: set[str]) -> str:
    if not isinstance(damage, Damage):
        return f"expected a Damage, got {damage!r}"
    for part in ("observe", "heal", "healed"):
        if not callable(getattr(damage, part)):
            return f"{part} must be a function, got {getattr(damage, part)!r}"
    for part in ("hosts", "crashed", "restarted"):
        named = getattr(damage, part)
        if not isinstance(named, list) or not all(isinstance(host, str) for host in named):
            return f"{part} must be a list of host names, got {named!r}"
        strange = sorted(set(named) - hosts)
        if strange:
            return f"{part} names {strange[0]!r}, and there is no such host"
    return ""


def _flaw_of(seen: object) -> str:
    if not isinstance(seen, Observation):
        return f"expected an Observation, got {seen!r}"
    effects = seen.effects
    if not isinstance(effects, Mapping) or not all(
        isinstance(where, str) and isinstance(affected, bool) for where, affected in effects.items()
    ):
        return f"effects must map names of hosts or links to True or False, got {effects!r}"
    for part in ("expected", "unit"):
        if not isinstance(getattr(seen, part), str):
            return f"{part} must be a text, got {getattr(seen, part)!r}"
    if not isinstance(seen.facts, dict) or not all(isinstance(fact, str) for fact in seen.facts):
        return f"facts must be a dict with texts as keys, got {seen.facts!r}"
    try:
        msgspec.json.encode(seen.facts)
    except Exception as error:  # noqa: BLE001 - the facts are the user's: encoding them may raise anything
        return f"facts cannot be written as JSON: {error}"
    return ""
