"""The servers that are compared, by name."""

from __future__ import annotations

from typing import Final

from .comparison import Server
from .redis import RedisComparison

SERVERS: Final[dict[str, Server]] = {one.name: one for one in (RedisComparison(),)}
