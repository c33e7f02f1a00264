"""Code that a plan names: ``package.module:Class`` outside the harness, images of servers, machines on which programs
are started, hooks, and environment variables whose values are sent to servers.

A plan may come from a stranger. Commands that run a plan from a file refuse such code unless the user allowed it on the
command line. Names of the catalogues and of installed entry points have no colon, so they are not code of a plan.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from typing import Final

from harness.errors import UsageError

from .hooks import hook_commands
from .model import Plan

OWN: Final = ("lock_impls", "scenarios.locks", "scenarios.mutants", "worker.workloads", "faults", "checkers")
"""Packages of the harness whose classes plans may name."""
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
"""An environment variable in the address of a server, in place of a password."""
HOOK: Final = "hook command"
"""Name of a hook's command in the list of a plan's code."""


def code_in(plan: Plan) -> dict[str, str]:
    """Return the code that the plan names, with what it is: ``{"mylock:MyLock": "lock"}``."""
    expected = () if plan.expect is None else plan.expect.named
    named = [
        ("lock", (plan.lock,)),
        ("workload", (plan.workload,)),
        ("nemesis", tuple(spec.fault for spec in plan.faults)),
        ("checker", (*plan.checkers, *expected)),
        ("cluster kind", (plan.kind,)),
    ]
    found = {name: what for what, names in named for name in names if ":" in name and not _is_ours(name)}
    if plan.image:
        found[plan.image] = "image"
    found |= dict.fromkeys((*plan.hosts, *plan.client_hosts), "SSH host")
    on_hosts = {plan.client_python: "Python", plan.host_setup: "setup command", plan.ssh_config: "ssh_config"}
    found |= dict.fromkeys(hook_commands(plan.hooks), HOOK)
    found |= {(one[1] or one[2]): "environment variable" for text in plan.servers for one in _VARIABLE.finditer(text)}
    return found | {name: what for name, what in on_hosts.items() if name}


def refuse_untrusted(plan: Plan, place: str, allowed: Collection[str], *, hooks: bool = False) -> None:
    """Raise UsageError if the plan in the file ``place`` names code that is not in ``allowed``. With ``hooks`` the
    commands of its hooks are allowed."""
    named = {name: what for name, what in code_in(plan).items() if not (hooks and what == HOOK)}
    refused = {name: what for name, what in named.items() if name not in allowed}
    if refused:
        listed = ", ".join(f"{what} {name}" for name, what in refused.items())
        allow = " ".join(f"--allow {shlex.quote(name)}" for name in refused)
        raise UsageError(f"{place} names code that would run: {listed}; if you trust it, add --trust, or {allow}")


def allowing(plan: Plan) -> list[str]:
    """Return the arguments that allow the code that the plan names, for a command that repeats it."""
    return [word for name in code_in(plan) for word in ("--allow", name)]


def _is_ours(name: str) -> bool:
    module = name.partition(":")[0]
    return any(module.startswith(f"harness.{package}.") for package in OWN)
