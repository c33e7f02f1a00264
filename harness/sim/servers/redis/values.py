"""Values of Redis keys, and Redis' way of reading and printing numbers and glob patterns.

A value is ``bytes`` (string), ``dict`` (hash), ``list`` (list), :class:`SetMembers` (set) or :class:`SortedSet`. Dicts
keep the order of insertion, so replies are the same in every run; the real server uses the order of a seeded hash.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from fractions import Fraction
from functools import lru_cache

from .protocol import INTEGER_RANGE, NOT_FLOAT, NOT_INTEGER, ErrorReply


class SetMembers(dict[bytes, None]):
    """A set that keeps the order in which its members were added."""


class SortedSet:
    """Members with scores, ordered by score and then by name."""

    __slots__ = ("order", "scores")

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.order: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self.order)

    def put(self, member: bytes, score: float) -> None:
        """Add a member or change its score."""
        self.discard(member)
        self.scores[member] = score
        insort(self.order, (score, member))

    def discard(self, member: bytes) -> bool:
        """Remove a member. Return False if it was not there."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True

    def rank(self, member: bytes) -> int | None:
        """Return the position of a member by ascending score, or None."""
        score = self.scores.get(member)
        return None if score is None else bisect_left(self.order, (score, member))


Value = bytes | dict[bytes, bytes] | list[bytes] | SetMembers | SortedSet

TYPE_NAMES: dict[type, bytes] = {
    bytes: b"string",
    dict: b"hash",
    list: b"list",
    SetMembers: b"set",
    SortedSet: b"zset",
}


def to_integer(text: bytes, error_text: bytes = NOT_INTEGER) -> int:
    """Parse a 64-bit integer in the exact form in which Redis prints it. Raises ErrorReply(error_text)."""
    try:
        number = int(text)
    except ValueError:
        raise ErrorReply(error_text) from None
    if b"%d" % number != text or number not in INTEGER_RANGE:
        raise ErrorReply(error_text)
    return number


_FLOAT = re.compile(rb"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity)", re.IGNORECASE)


_HEX_FLOAT = re.compile(rb"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[+-]?\d+)?", re.IGNORECASE)


def to_float(text: bytes, error_text: bytes = NOT_FLOAT) -> float:
    """Parse the whole text as strtod does, except NaN. Raises ErrorReply(error_text)."""
    if _HEX_FLOAT.fullmatch(text):
        return float.fromhex(text.decode())
    if not _FLOAT.fullmatch(text):
        raise ErrorReply(error_text)
    return float(text)


def to_long_double(text: bytes) -> Fraction | None:
    """Parse a number with the precision of x87 long double. Return None for an infinity."""
    number = to_float(text)
    if number in (float("inf"), float("-inf")) and b"inf" in text.lower():
        return None
    return Fraction(number) if b"x" in text.lower() else round_long_double(Fraction(text.decode()))


def round_long_double(number: Fraction) -> Fraction:
    """Round to a mantissa of 64 bits, half to even."""
    if not number:
        return number
    shift = 64 - (abs(number.numerator).bit_length() - number.denominator.bit_length() + 1)
    while True:
        scaled = number * (Fraction(2) ** shift)
        size = abs(int(scaled)).bit_length()
        if size == 64:
            return Fraction(round(scaled)) / (Fraction(2) ** shift)
        shift += 64 - size


def format_long_double(number: Fraction) -> bytes:
    """Format as ``%.17Lf`` does, without trailing zeros."""
    digits = round(abs(number) * 10**17)
    sign = "-" if number < 0 and digits else ""
    text = f"{sign}{digits // 10**17}.{digits % 10**17:017d}".rstrip("0").rstrip(".")
    return text.encode()


@lru_cache(maxsize=512)
def glob(pattern: bytes) -> re.Pattern[bytes]:
    """Translate a pattern of Redis' stringmatch to a regular expression."""
    out, at = b"", 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            out += b".*"
        elif char == b"?":
            out += b"."
        elif char == b"[":
            piece, at = _char_class(pattern, at)
            out += piece
        else:
            if char == b"\\" and at < len(pattern):
                char = pattern[at : at + 1]
                at += 1
            out += re.escape(char)
    return re.compile(out, re.DOTALL)


def _char_class(pattern: bytes, at: int) -> tuple[bytes, int]:
    negated = pattern[at : at + 1] == b"^"
    at += negated
    body = b""
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
            at += 1
            body += re.escape(pattern[at : at + 1])
            at += 1
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at : at + 1], pattern[at + 2 : at + 3]))
            body += re.escape(low) + b"-" + re.escape(high)
            at += 3
        else:
            body += re.escape(pattern[at : at + 1])
            at += 1
    if not body:
        return (b"." if negated else b"(?!)"), at + 1
    return b"[" + (b"^" if negated else b"") + body + b"]", at + 1


def range_of(length: int, start: int, stop: int) -> range:
    """Return the indexes from ``start`` to ``stop``, both included; negative ones count from the end."""
    start = max(0, start + length if start < 0 else start)
    stop = min(length - 1, stop + length if stop < 0 else stop)
    return range(start, stop + 1)


def size_of(value: Value) -> int:
    """Estimate the bytes that Redis allocates for a value. Large values are estimated from five items, as MEMORY
    USAGE does."""
    if isinstance(value, bytes):
        return 24 + len(value)
    if isinstance(value, list):
        sample: list[bytes] = value[:5]
        each = sum(map(len, sample)) / len(sample) + 11 if sample else 0
    elif isinstance(value, SortedSet):
        each = sum(len(member) for _, member in value.order[:5]) / max(1, min(5, len(value))) + 40
    else:
        pairs = [item for _, item in zip(range(5), value.items(), strict=False)]
        each = sum(len(k) + len(v or b"") for k, v in pairs) / len(pairs) + 30 if pairs else 0
    return 64 + int(each * len(value))
