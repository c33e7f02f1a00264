"""Check the verdict that a checker returns: a user's checker must not harm the verdicts of the others."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from .base import Blame, Verdict, Violation

WHOLE: Final = "a whole number"
MOST_NS: Final = 2**63
"""The largest time (ns): times are 64-bit."""


def flaw(verdict: object) -> str:
    """Return what is wrong with a verdict: the field, the expected value, and the value found. Empty if nothing is
    wrong."""
    if not isinstance(verdict, Verdict):
        return f"expected a Verdict, got {_shown(verdict)}"
    if not (verdict.valid is None or verdict.valid is True or verdict.valid is False):
        return _expected("valid", "True, False or None", verdict.valid)
    if not isinstance(verdict.applies, bool):
        return _expected("applies", "True or False", verdict.applies)
    if not isinstance(verdict.explanation, str):
        return _expected("explanation", "a text", verdict.explanation)
    if not isinstance(verdict.evidence, tuple | list):
        return _expected("evidence", "a tuple of Violations", verdict.evidence)
    for number, violation in enumerate(verdict.evidence):
        if found := _flaw_of(violation, f"evidence[{number}]"):
            return found
    return _not_plain("stats", verdict.stats)


def _flaw_of(violation: object, where: str) -> str:
    if not isinstance(violation, Violation):
        return _expected(where, "a Violation", violation)
    for name in ("kind", "sentence"):
        if not isinstance(getattr(violation, name), str):
            return _expected(f"{where}.{name}", "a text", getattr(violation, name))
    if not (violation.key is None or isinstance(violation.key, str)):
        return _expected(f"{where}.key", "a text or None", violation.key)
    for name in ("from_ns", "until_ns"):
        if not _is_time(getattr(violation, name)):
            return _expected(f"{where}.{name}", f"{WHOLE} of nanoseconds", getattr(violation, name))
    for name in ("harm", "cause"):
        if not isinstance(getattr(violation, name), str):
            return _expected(f"{where}.{name}", "a text", getattr(violation, name))
    if violation.blame not in (None, *get_args(Blame)):
        return _expected(f"{where}.blame", f"{', '.join(get_args(Blame))} or None", violation.blame)
    if not isinstance(violation.involved, tuple | list):
        return _expected(f"{where}.involved", "a tuple of dicts", violation.involved)
    return next(
        filter(None, (_flaw_of_step(step, f"{where}.involved[{n}]") for n, step in enumerate(violation.involved))), ""
    )


def _flaw_of_step(step: Any, where: str) -> str:
    """Check a hold or call of a violation: the fields that reports and summaries read."""
    if found := _not_plain(where, step):
        return found
    indices = step.get("indices", [])
    if not isinstance(indices, tuple | list) or not all(index is None or type(index) is int for index in indices):
        return _expected(f"{where}.indices", "a list of whole numbers", indices)
    if "from_ns" in step and not _is_time(step["from_ns"]):
        return _expected(f"{where}.from_ns", f"{WHOLE} of nanoseconds", step["from_ns"])
    return ""


def _is_time(value: object) -> bool:
    return type(value) is int and -MOST_NS <= value < MOST_NS


def _not_plain(where: str, value: object) -> str:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return _expected(where, "a dict with texts as keys", value)
    try:
        msgspec.json.encode(value)
    except Exception as error:  # noqa: BLE001 - the value is the user's: encoding it may raise anything
        return f"{where} cannot be written as JSON: {error}"
    return ""


def _expected(where: str, what: str, value: object) -> str:
    return f"{where} must be {what}, got {_shown(value)}"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - see above
        text = "something that has no repr"
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
