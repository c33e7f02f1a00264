"""PostgreSQL's hash of texts, behind ``hashtext`` and ``hashtextextended``, which give advisory locks their keys.

Source: src/common/hashfn.c of PostgreSQL 15 (Bob Jenkins' lookup3), for a little-endian server.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_START: Final = 0x9E3779B9 + 3923095
_MIX: Final = (4, 6, 8, 16, 19, 4)
_FINAL: Final = (14, 11, 25, 16, 4, 14, 24)

State = tuple[int, int, int]


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK


def _mixed(a: int, b: int, c: int) -> State:
    for bits in _MIX:
        a = ((a - c) & _MASK) ^ _rotated(c, bits)
        c = (c + b) & _MASK
        a, b, c = b, c, a
    return a, b, c


def _finished(a: int, b: int, c: int) -> State:
    for bits in _FINAL:
        c = ((c ^ b) - _rotated(b, bits)) & _MASK
        a, b, c = b, c, a
    # Seven steps turn the words round by one.
    return c, a, b


def _hashed(data: bytes, seed: int) -> State:
    a = b = c = (_START + len(data)) & _MASK
    if seed:
        a, b, c = _mixed((a + (seed >> 32)) & _MASK, (b + (seed & _MASK)) & _MASK, c)
    end = len(data) - len(data) % 12
    for at in range(0, end, 12):
        words = [int.from_bytes(data[start : start + 4], "little") for start in (at, at + 4, at + 8)]
        a, b, c = _mixed((a + words[0]) & _MASK, (b + words[1]) & _MASK, (c + words[2]) & _MASK)
    rest = data[end:]
    a = (a + int.from_bytes(rest[:4], "little")) & _MASK
    b = (b + int.from_bytes(rest[4:8], "little")) & _MASK
    c = (c + (int.from_bytes(rest[8:], "little") << 8)) & _MASK  # its lowest byte is left for the length
    return _finished(a, b, c)


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def hash_text(text: str) -> int:
    """Return ``hashtext(text)``, a signed number of 32 bits."""
    return _signed(_hashed(text.encode(), 0)[2], 32)


def hash_text_extended(text: str, seed: int) -> int:
    """Return ``hashtextextended(text, seed)``, a signed number of 64 bits."""
    _, b, c = _hashed(text.encode(), seed & 0xFFFFFFFFFFFFFFFF)
    return _signed(b << 32 | c, 64)
