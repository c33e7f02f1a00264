"""Randomness for simulated tasks: unseeded generators and UUIDs depend on the simulation's seed and the host."""

from __future__ import annotations

import os
import random
import uuid
import zlib
from collections.abc import Iterator
from typing import Any, Final

from greenlet import getcurrent

from .clocks import wall_ns
from .dispatch import Replacement, Virtual, dispatch
from .kernel import Task

_UUID_EPOCH: Final = 0x01B21DD213814000
"""1970-01-01 in units of 100 ns since 1582-10-15, the epoch of version 1 UUIDs."""
_REAL_SEED = random.Random.seed


def _node(task: Task) -> int:
    """Return the hardware address of the task's host: locally administered, as in the range that Docker uses."""
    return 0x0242 << 32 | zlib.crc32(task.host.name.encode())


def _uuid1(task: Task, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    stamp = wall_ns(task) // 100 + _UUID_EPOCH + task.kernel.next_number()
    sequence = task.life.rng.getrandbits(14) if clock_seq is None else clock_seq & 0x3FFF
    time_fields = (stamp & 0xFFFFFFFF, stamp >> 32 & 0xFFFF, stamp >> 48 & 0xFFF)
    fields = (*time_fields, sequence >> 8, sequence & 0xFF, _node(task) if node is None else node)
    return uuid.UUID(fields=fields, version=1, is_safe=uuid.SafeUUID.safe)


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    task = getcurrent()
    if a is None and type(task) is Task:
        a = task.life.rng.getrandbits(256)
    _REAL_SEED(self, a, version)


def _module_functions() -> Iterator[Replacement]:
    """Yield replacements of ``random.random`` and the other functions bound to the module's hidden generator.

    On a simulated host they use the host's generator.
    """
    hidden = random.random.__self__  # type: ignore[attr-defined]
    for name in random.__all__:
        method = getattr(random, name)
        if getattr(method, "__self__", None) is hidden:
            yield random, name, dispatch(method, _host_random(name))


def _host_random(name: str) -> Virtual:
    return lambda task, *args, **kwargs: getattr(task.life.rng, name)(*args, **kwargs)


def replacements() -> Iterator[Replacement]:
    """Yield the replacements by which randomness is simulated."""
    yield os, "urandom", dispatch(os.urandom, lambda task, size: task.life.rng.randbytes(size))
    if hasattr(os, "getrandom"):  # Linux alone has it
        yield os, "getrandom", dispatch(os.getrandom, lambda task, size, flags=0: task.life.rng.randbytes(size))  # noqa: ARG005
    yield uuid, "getnode", dispatch(uuid.getnode, _node)
    yield uuid, "uuid1", dispatch(uuid.uuid1, _uuid1)
    yield random.Random, "seed", _seed
    yield from _module_functions()
