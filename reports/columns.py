"""Columns of whole numbers for a page's script, small enough for hundreds of thousands of rows.

``reports/templates/js/data.js`` reads what this writes; the two change together.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

NONE: Final = -1
Column = npt.NDArray[np.int64]
_SIZES: Final = (("b", np.dtype("<i1")), ("h", np.dtype("<i2")), ("i", np.dtype("<i4")))


@dataclass(slots=True)
class Names:
    """Numbers texts in the order they are first seen; -1 is no text."""

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
    """The rows by column. Those of ``rising`` grow from row to row: they are kept as differences, which are small."""
    table = np.array(list(rows), dtype=np.int64).reshape(-1, len(names))
    found = {name: table[:, i] for i, name in enumerate(names)}
    return found | {name: np.diff(found[name], prepend=0) for name in rising}


def pack(column: Column) -> str:
    """A letter for the size of the numbers (b, h, i: 1, 2, 4 bytes with a sign; d: a float of 8) and their bytes, in
    base64: a sixth smaller than decimal digits, as quick to read, and typed arrays at once, quick to go over."""
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    fits = (one for one in _SIZES if np.iinfo(one[1]).min <= low and high <= np.iinfo(one[1]).max)
    letter, size = next(fits, ("d", np.dtype("<f8")))
    return letter + base64.b64encode(column.astype(size).tobytes()).decode()
