"""Reader of the data that ``reports/columns.py`` compresses for a page's script."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

DTYPES = {"b": "<i1", "h": "<i2", "i": "<i4", "d": "<f8"}


@dataclass(frozen=True)
class Packed:
    """The JSON of compressed data, and the bytes of its columns."""

    data: dict[str, Any]
    bytes: bytes

    def column(self, text: str) -> list[int]:
        """Return the numbers of the column that a text in the data stands for."""
        letter, begun, count = text.split(":")
        assert int(begun) % 8 == 0, "a typed array begins at a multiple of its numbers' size"
        return [int(one) for one in np.frombuffer(self.bytes, DTYPES[letter], int(count), int(begun))]


def unpacked(text: str) -> Packed:
    data = zlib.decompress(base64.b64decode(text))
    (length,) = struct.unpack("<I", data[:4])
    return Packed(json.loads(data[4 : 4 + length]), data[(4 + length + 7) // 8 * 8 :])
