"""Plans: everything that decides a run, as data, and their form in TOML."""

from __future__ import annotations

from .code import allowing, code_in, refuse_untrusted
from .hooks import Hook
from .mechanism import Mechanism
from .model import BACKENDS, LONGEST_S, SERVERS, SSH, Delay, Discipline, Expect, FaultSpec, Fencing, Plan
from .toml import decode, dump, load, seconds, validation_message

__all__ = [
    "BACKENDS",
    "LONGEST_S",
    "SERVERS",
    "SSH",
    "Delay",
    "Discipline",
    "Expect",
    "FaultSpec",
    "Fencing",
    "Hook",
    "Mechanism",
    "Plan",
    "allowing",
    "code_in",
    "decode",
    "dump",
    "load",
    "refuse_untrusted",
    "seconds",
    "validation_message",
]
