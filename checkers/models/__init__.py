"""Models: sequential specifications of locks, registers and collections, against which a history is checked.

A model gives the state that follows from a state and an operation. It is pure: states are hashable and never changed,
and the same arguments give the same result, so results are cached. A user's model is any class with ``initial`` and
``step``; a subclass of :class:`Model` inherits the rest.
"""

from __future__ import annotations

from typing import Final

from . import collections, key_value, leases, locks, registers
from .base import Either, Inconsistent, Model, Operation
from .collections import AppendOnlyList, ElementSet, FifoQueue, Stack
from .evidence import WithRefusals
from .key_value import KeyValue, MultiRegister
from .leases import LeaseMutex
from .locks import (
    ACQUIRE,
    LOCKING,
    RELEASE,
    FencedMutex,
    FifoLock,
    Mutex,
    OwnerMutex,
    ReadWriteLock,
    ReentrantFencedMutex,
    ReentrantMutex,
    Semaphore,
    shared,
)
from .registers import CasRegister, Register, frozen, plain, worded

MODELS: Final[dict[str, type[Model]]] = {
    kind.name: kind
    for module in (locks, leases, registers, key_value, collections)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Model)
    if kind.name
}
"""All models of these modules, by the name that users type."""

OWNED: Final = (OwnerMutex, ReentrantMutex, FencedMutex, ReentrantFencedMutex, ReadWriteLock, LeaseMutex)
"""Models of locks whose holds have an owner."""

__all__ = [
    "ACQUIRE",
    "LOCKING",
    "MODELS",
    "OWNED",
    "RELEASE",
    "AppendOnlyList",
    "CasRegister",
    "Either",
    "ElementSet",
    "FencedMutex",
    "FifoLock",
    "FifoQueue",
    "Inconsistent",
    "KeyValue",
    "LeaseMutex",
    "Model",
    "MultiRegister",
    "Mutex",
    "Operation",
    "OwnerMutex",
    "ReadWriteLock",
    "ReentrantFencedMutex",
    "ReentrantMutex",
    "Register",
    "Semaphore",
    "Stack",
    "WithRefusals",
    "frozen",
    "plain",
    "shared",
    "worded",
]
