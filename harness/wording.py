"""Phrases and formats that messages of several packages share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

SAFETY: Final = {
    "E": "saves double work; two holders are possible and nothing notices",
    "F": "safe, if the protected resource checks its fencing token",
    "F?": "would be safe with fencing, but issues no usable token",
    "X": "broken without any fault",
}
"""The safety classes of locks in words."""
LIMITS: Final = {
    "late-client": "a holder may go on after its lease",
    "clock": "it relies on the clocks of servers",
    "server-fault": "it may be lost when a server crashes, is cut off or is replaced",
    "never-freed": "nothing frees it when its holder dies",
    "unpromised": "it does not promise this property",
    "always": "it is broken without any fault",
}
"""The documented limits of locks in words."""
PROPERTY_STATES: Final = {
    "broken": "broken",
    "known-limit": "known limit",
    "not-tested": "not tested",
    "kept": "kept",
    "not-applicable": "not applicable",
}
"""The states of properties in words, the gravest first."""
LOCK_STATES: Final = {**PROPERTY_STATES, "fenced": "fenced"}
"""The states of a lock under a family of faults in words. fenced: the resource refused every late access by its
token."""
SAFE_WITH_FENCING: Final = "Safe with fencing"
"""Begin of the reason for a verdict: the lock had two holders, and the resource refused every late access."""
_SENTENCE: Final = re.compile(r"(?<=[.!?]) (?=\S)")
_HOST: Final = re.compile(r"[a-z]+\d")
"""Name of a host, which keeps its lower case at the beginning of a sentence."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 fault``, ``2,000 faults``, ``2 entries``."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if re.search(r"[^aeiou]y$", noun) else f"{noun}s"
    return f"{number:,} {plural}"


def largest_share(runs: int) -> float:
    """Return the largest share of failing runs that agrees with ``runs`` runs, at least 1, without a failure.

    If a share p of all runs failed, ``runs`` of them would be without a failure with probability (1 - p) ** runs. The
    result is the p for which this is 5 %.
    """
    return float(1 - 0.05 ** (1 / runs))


def certainty(runs: int) -> str:
    """Return what ``runs`` runs, at least 1, without a failure prove about all runs of this kind.

    The sentence names :func:`largest_share`, rounded up.
    """
    share = math.ceil(1000 * largest_share(runs)) / 10
    if runs == 1:
        return f"1 run says little: up to {share:g} % of such runs might still fail"
    return f"{counted(runs, 'run')}, no failure: below {share:g} % of such runs fail, with 95 % confidence"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return names as a list in words: ``n1, n2 and n3``."""
    *most, end = list(names) or [""]
    return f"{', '.join(most)} {last} {end}" if most else end


def in_seconds(ns: int) -> str:
    """Return nanoseconds as text with a precision of 1 ms: ``0.205 s``."""
    return f"{ns / 1e9:.3f} s"


def moment(ns: int, origin_ns: int) -> str:
    """Return a time as seconds since the start of the run, as all sentences have it: ``0.205 s``."""
    return in_seconds(ns - origin_ns)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text. A full stop inside a number or a name ends none."""
    return _SENTENCE.split(text, maxsplit=1)[0]


def lower_first(text: str) -> str:
    """Return a sentence as it stands inside another one."""
    return text[:1].lower() + text[1:]


def as_sentence(text: str) -> str:
    """Return the text with a capital (except for names of hosts) and a full stop."""
    if not _HOST.match(text):
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."
