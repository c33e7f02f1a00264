"""Columns of whole numbers for a page's script, compact enough for hundreds of thousands of rows.

``reports/templates/js/data.js`` reads this format; the two files must change together.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

NONE: Final = -1
Column = npt.NDArray[np.int64]
_SIZES: Final = (("b", np.dtype("<i1")), ("h", np.dtype("<i2")), ("i", np.dtype("<i4")))


@dataclass(slots=True)
class TextNumbers:
    """Assign numbers to texts, in the order of first use; -1 stands for no text."""

    texts: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def code(self, text: str | None) -> int:
        if not text:
            return NONE
        if text not in self.codes:
            self.codes[text] = len(self.texts)
            self.texts.append(text)
        return self.codes[text]


def columns(names: Sequence[str], rows: Iterable[tuple[int, ...]], rising: Sequence[str] = ()) -> dict[str, Column]:
    """Return the rows by column. Values in the columns ``rising`` never fall; they are stored as differences, which are
    small."""
    table = np.array(list(rows), dtype=np.int64).reshape(-1, len(names))
    found = {name: table[:, i] for i, name in enumerate(names)}
    return found | {name: np.diff(found[name], prepend=0) for name in rising}


def _smallest(column: Column) -> tuple[str, bytes]:
    """Return the letter of the smallest size that fits all numbers of a column, and their bytes.

    b, h and i are signed numbers of 1, 2 and 4 bytes, d is a float of 8 bytes."""
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    fits = (one for one in _SIZES if np.iinfo(one[1]).min <= low and high <= np.iinfo(one[1]).max)
    letter, size = next(fits, ("d", np.dtype("<f8")))
    return letter, column.astype(size).tobytes()


def compress(data: dict[str, Any]) -> str:
    """Encode JSON data that may contain columns, compressed (zlib) and in base64.

    Decompressed, it is the length of the JSON text in bytes (4 bytes, little-endian), the JSON text, zeros up to a
    multiple of 8 bytes, and the bytes of the columns, each filled up to such a multiple. A column is in the JSON as the
    letter of its size, its first byte after the zeros, and its number of values, joined by colons. The script gets
    typed arrays, which are quick to search. The same data gives the same text.
    """
    parts: list[bytes] = []
    begun = 0

    def place(column: Column) -> str:
        nonlocal begun
        letter, data = _smallest(column)
        parts.append(_filled(data))
        found = f"{letter}:{begun}:{len(column)}"
        begun += len(parts[-1])
        return found

    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, default=place).encode(errors="replace")
    head = _filled(struct.pack("<I", len(text)) + text)
    return base64.b64encode(zlib.compress(head + b"".join(parts), 6)).decode()


def _filled(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
