"""The values of an EDN history: kept once each, and, when all entries are read, understood.

Only then is it known whether the values are ``[key value]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from .calls import NEVER, NO_FENCE, NONE, Calls, Codes, Wants
from .edn import EdnError, Pair, one, written
from .entries import FAIL, INFO, OK, Block, Entries, Numbers
from .grants import ANSWERS, WHOLE, Grant, TokenError, grant_columns
from .values import Keyword

Keyed = Literal["auto", "yes", "no"]


class EdnValues(Numbers):
    """Every distinct value, numbered by its text; ``found`` has them. nil has NONE."""

    def __init__(self) -> None:
        super().__init__("nil")
        self.found: list[Any] = []

    def __missing__(self, text: str) -> int:
        value = _flat(text) if _FLAT.fullmatch(text) else one(text)
        number = NONE if value is None else len(self.found)
        if value is not None:
            self.found.append(value)
        self[text] = number
        return number


class Names(Numbers):
    """The numbers of names, by how they are written; nil has NONE. ``name`` says what a value is called."""

    def __init__(self, numbers: Numbers, name: Callable[[Any], str]) -> None:
        super().__init__("nil")
        self.numbers = numbers
        self.name = name

    def __missing__(self, text: str) -> int:
        value = one(text)
        number = self[text] = NONE if value is None else self.numbers[self.name(value)]
        return number


def key_name(value: Any) -> str:
    """What a key is called, no two alike: text as it is, unless that could be another key; all others as written."""
    if not isinstance(value, str) or isinstance(value, Keyword):
        return written(value)
    try:
        return value if one(value) == value else written(value)
    except EdnError:
        return value or written(value)


OTHERS: Final = 2**40
"""Processes that are no numbers from 0 on have numbers from here on."""


class Processes(Numbers):
    """The numbers of processes, by how they are written. Raises OverflowError for one of more than 63 bits."""

    def __init__(self, entries: Entries) -> None:
        super().__init__("nil")
        self.entries = entries

    def __missing__(self, text: str) -> int:
        process = one(text)
        if type(process) is int and process >= 2**63:
            raise OverflowError(f"process {process}")
        if type(process) is not int or not 0 <= process < OTHERS:
            process = OTHERS + len(self.entries.written)
            self.entries.written[process] = text
        number = self[text] = self.entries.processes[process]
        return number


_FLAT: Final = re.compile(r"\{:[a-z_]+ [0-9]+(?:\.[0-9]+)?(?:, :[a-z_]+ [0-9]+(?:\.[0-9]+)?)*\}")


def _flat(text: str) -> Any:
    """A map of numbers, as grants are: there may be as many as there are grants, and JSON is read quickly."""
    try:
        return msgspec.json.decode(text.replace(", :", ',"').replace("{:", '{"').replace(" ", '":'))
    except msgspec.MsgspecError:
        return one(text)


def settle(entries: Entries, values: EdnValues, wants: Wants, keyed: Keyed) -> list[Any]:
    """Give the entries their keys and their processes their clients, as far as values say them, and leave of the
    values what is wanted; the list of those that are left."""
    found = values.found
    if keyed == "yes" or (keyed == "auto" and _are_pairs(entries, found)):
        found = _split(entries, found)
    if wants != "values":  # a register may hold anything
        _name_clients(entries, found)
    for block in entries.blocks:
        if entries.settings is None:  # a process of others is a client, wherever it is
            block.node = np.full(len(block), NONE, dtype=np.int32)
        if wants in ("leases", "grants"):
            _grant(entries, block, found, tokens=wants == "grants")
        if wants != "values":
            block.value = None
    return found if wants == "values" else []


def _value(block: Block) -> Codes:
    assert block.value is not None
    return block.value


def _table(found: Sequence[Any], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """A column for all values and, at the end, where NONE finds it, for nil."""
    return np.fromiter(found, kind, len(found))


def overrule(calls: Calls) -> None:
    """What was written is what the answer says, if it says anything, as Knossos has it: who writes may leave it to
    the client what."""
    said = calls.named(["write", "cas"]) & (calls.result != NONE)
    calls.argument[said] = calls.result[said]


OPERATIONS: Final = frozenset(
    {
        *("read", "write", "cas", "acquire", "release", "lock", "unlock", "extend", "check", "enqueue", "cancel"),
        *("acquire-read", "acquire-write", "release-read", "release-write"),
    }
)
"""Functions whose values have keys, if any do; a client's others may be there for the test's own ends."""


def _looked_at(entries: Entries) -> npt.NDArray[np.bool_]:
    """By their numbers and, for NONE, at the end: the functions whose values tell whether there are keys."""
    known = [name in OPERATIONS for name in entries.fs.names]
    return np.array([*(known if any(known) else [True] * len(known)), False])


def _are_pairs(entries: Entries, found: list[Any]) -> bool:
    """Whether values are keys with values: they are tagged so, or all clients' values are vectors of two, except for
    completions that say nothing. The ``[old new]`` of a cas looks like that as well and says nothing."""
    if any(isinstance(value, Pair) for value in found):
        return True
    pairs = _table([*(_is_pair(value) for value in found), False], np.bool_)
    inside = [_is_pair(value) and (value[1] is None or _is_pair(value[1])) for value in found]
    hollow = _table([*inside, False], np.bool_)
    looked, cas, telling = _looked_at(entries), entries.fs.get("cas", NONE), False
    for block in entries.blocks:
        value = _value(block)
        nothing = (value == NONE) & np.isin(block.kind, (FAIL, INFO))
        rows = (block.process != NONE) & looked[block.f] & ~nothing
        if not pairs[value[rows]].all():
            return False
        telling = telling or bool((rows & ((block.f != cas) | hollow[value])).any())
    return telling


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _split(entries: Entries, found: list[Any]) -> list[Any]:
    """Move the keys out of the values; the values that are left."""
    seconds = Numbers("None")
    left: list[Any] = []
    pairs = list(map(_is_pair, found))
    key = [NONE] * (len(found) + 1)
    code = [NONE] * (len(found) + 1)
    for number, (is_pair, value) in enumerate(zip(pairs, found, strict=True)):
        if is_pair:
            key[number] = entries.keys[key_name(value[0])]
            code[number] = seconds[repr(value[1])]
            if code[number] == len(left):
                left.append(value[1])
    no_pair = _table([*(not is_pair for is_pair in pairs), False], np.bool_)
    looked = _looked_at(entries)
    keys, codes = _table(key, np.int32), _table(code, np.int32)
    for block in entries.blocks:
        value = _value(block)
        wrong = np.flatnonzero(no_pair[value] & (block.process != NONE) & looked[block.f])
        if len(wrong):
            raise entries.fault(int(block.line[wrong[0]]), f"expected [key value], got {found[value[wrong[0]]]!r}")
        block.key = np.where(keys[value] == NONE, block.key, keys[value])
        block.value = codes[value]
    return left


def _name_clients(entries: Entries, found: list[Any]) -> None:
    """Hazelcast's locks, as Jepsen tests them, say who the client is in their values."""
    numbers = Numbers()
    names = _table([*(numbers[_client(value)] for value in found), NONE], np.int32)
    if not numbers.names:
        return
    processes = entries.processes.names
    for block in entries.blocks:
        said = names[_value(block)]
        for row in np.flatnonzero((said != NONE) & (block.process != NONE)).tolist():
            process, name = int(block.process[row]), numbers.names[said[row]]
            if entries.named.setdefault(process, name) != name:
                number = processes[process]
                who = entries.written.get(number, number)
                what = f"process {who} is client {name!r} here, and {entries.named[process]!r} before"
                raise entries.fault(int(block.line[row]), what)


def _client(value: Any) -> str | None:
    client = value.get("client") if isinstance(value, dict) else None
    return None if client is None else key_name(client)


def _grant(entries: Entries, block: Block, found: list[Any], *, tokens: bool) -> None:
    names = entries.fs
    answers = [names[name] for name in ANSWERS if name in names]
    rows = np.flatnonzero((block.kind == OK) & (block.process != NONE) & np.isin(block.f, answers))
    block.fence = np.full(len(block), NO_FENCE)
    block.lease = np.full(len(block), NEVER)
    block.good = np.full(len(block), NONE, dtype=np.int8)
    codes, first, which = np.unique(_value(block)[rows], return_index=True, return_inverse=True)
    given = [None if code == NONE else found[code] for code in codes.tolist()]
    try:
        fence, lease, good = grant_columns(list(map(_as_grant, given)), tokens=tokens)
    except (msgspec.MsgspecError, TokenError) as error:
        row, value = next(
            of for of in zip(rows[first].tolist(), given, strict=True) if not _is_grant(of[1], tokens=tokens)
        )
        raise entries.fault(int(block.line[row]), f"{WHOLE}, got {value!r}") from error
    block.fence[rows], block.lease[rows], block.good[rows] = fence[which], lease[which], good[which]


def _is_grant(value: Any, *, tokens: bool) -> bool:
    try:
        grant_columns([_as_grant(value)], tokens=tokens)
    except (msgspec.MsgspecError, TokenError):
        return False
    return True


def _as_grant(value: Any) -> Grant:
    if value is None:
        return Grant()
    if isinstance(value, dict):
        known = {name.replace("-", "_"): item for name, item in value.items()}
        return msgspec.convert(known, Grant)
    return msgspec.convert({"fence": value}, Grant)
