"""Columns of whole numbers for a page's script, compact enough for hundreds of thousands of rows.

``reports/templates/js/data.js`` reads this format; the two files must change together.
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


def pack(column: Column) -> str:
    """Encode a column as a letter and its bytes in base64.

    The letter is the size of the numbers (b, h, i: signed, 1, 2, 4 bytes; d: a float of 8 bytes). Base64 is a sixth
    shorter than decimal digits and equally quick to read, and the script gets typed arrays, which are quick to search.
    """
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    fits = (one for one in _SIZES if np.iinfo(one[1]).min <= low and high <= np.iinfo(one[1]).max)
    letter, size = next(fits, ("d", np.dtype("<f8")))
    return letter + base64.b64encode(column.astype(size).tobytes()).decode()
