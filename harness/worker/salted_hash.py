"""A client's own ``hash()``: each Python process salts the hashes of texts, so two clients get different ones."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

_SALTED: Final = (str.__hash__, bytes.__hash__)
_BYTES: Final = 8


def salted_hash(salt: bytes) -> Callable[[Any], int]:
    """Return a ``hash()`` whose results for texts, bytes and tuples and frozensets of them depend on ``salt``.

    All other values have the hash that they have in this process. Sets and dicts do not use it.
    """

    def hash_(value: Any, /) -> int:
        method: Any = type(value).__hash__
        if method in _SALTED and value:  # no process salts the empty text
            data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
            return _real(int.from_bytes(blake2b(salt + data, digest_size=_BYTES).digest(), "big", signed=True))
        if method is tuple.__hash__:
            return _real(tuple(hash_(item) for item in value))
        if method is frozenset.__hash__:
            return _real(frozenset(hash_(item) for item in value))
        return _real(value)

    return hash_


_real: Final = builtins.hash
