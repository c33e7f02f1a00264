"""The values of an EDN history: kept once each, and, when all entries are read, understood.

Only then is it known whether the values are ``[key value]``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from .calls import NEVER, NO_FENCE, NONE, Codes, Wants
from .edn import EdnError, Pair, form, skip
from .entries import INVOKE, OK, Block, Entries, Numbers
from .grants import ANSWERS, WHOLE, Grant, TokenError, grant_columns

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
    """The numbers of names, by how they are written; nil has NONE."""

    def __init__(self, numbers: Numbers) -> None:
        super().__init__("nil")
        self.numbers = numbers

    def __missing__(self, text: str) -> int:
        value = one(text)
        number = self[text] = NONE if value is None else self.numbers[str(value)]
        return number


class Processes(Numbers):
    """The numbers of processes, by how they are written. Raises OverflowError for one of more than 63 bits."""

    def __init__(self, numbers: Numbers) -> None:
        super().__init__("nil")
        self.numbers = numbers

    def __missing__(self, text: str) -> int:
        process = int(text)
        if process >= 2**63:
            raise OverflowError(f"process {process}")
        number = self[text] = self.numbers[process]
        return number


_FLAT: Final = re.compile(r"\{:[a-z_]+ [0-9]+(?:\.[0-9]+)?(?:, :[a-z_]+ [0-9]+(?:\.[0-9]+)?)*\}")


def _flat(text: str) -> Any:
    """A map of numbers, as grants are: there may be as many as there are grants, and JSON is read quickly."""
    try:
        return msgspec.json.decode(text.replace(", :", ',"').replace("{:", '{"').replace(" ", '":'))
    except msgspec.MsgspecError:
        return one(text)


def one(text: str) -> Any:
    """The only form in ``text``. Raises EdnError."""
    value, end = form(text, 0)
    if skip(text, end) != len(text):
        raise EdnError(end, f"expected one form, got {text[:40]!r}")
    return value


def settle(entries: Entries, values: EdnValues, wants: Wants, keyed: Keyed) -> list[Any]:
    """Give the entries their keys and their processes their clients, as far as values say them, and leave of the
    values what is wanted; the list of those that are left."""
    found = values.found
    if keyed == "yes" or (keyed == "auto" and _are_pairs(entries, found)):
        found = _split(entries, found)
    _name_clients(entries, found)
    for block in entries.blocks:
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


def _are_pairs(entries: Entries, found: list[Any]) -> bool:
    """Whether values are keys with values: they are tagged so, or all clients' values are vectors of two, of which
    one in an invocation (that of a read or an acquire) has no second."""
    if any(isinstance(value, Pair) for value in found):
        return True
    two = [isinstance(value, tuple) and len(value) == 2 and value[0] is not None for value in found]
    pairs = _table([*two, False], np.bool_)
    hollow = _table([*(is_two and value[1] is None for is_two, value in zip(two, found, strict=True)), False], np.bool_)
    asks = False
    for block in entries.blocks:
        client = block.process != NONE
        if not pairs[_value(block)[client]].all():
            return False
        asks = asks or bool(hollow[_value(block)[client & (block.kind == INVOKE)]].any())
    return asks


def _split(entries: Entries, found: list[Any]) -> list[Any]:
    """Move the keys out of the values; the values that are left."""
    seconds = Numbers("None")
    left: list[Any] = []
    pairs = [isinstance(value, tuple) and len(value) == 2 for value in found]
    key = [NONE] * (len(found) + 1)
    code = [NONE] * (len(found) + 1)
    for number, (is_pair, value) in enumerate(zip(pairs, found, strict=True)):
        if is_pair:
            key[number] = NONE if value[0] is None else entries.keys[str(value[0])]
            code[number] = seconds[repr(value[1])]
            if code[number] == len(left):
                left.append(value[1])
    no_pair = _table([*(not is_pair for is_pair in pairs), False], np.bool_)
    keys, codes = _table(key, np.int32), _table(code, np.int32)
    for block in entries.blocks:
        value = _value(block)
        wrong = np.flatnonzero(no_pair[value] & (block.process != NONE))
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
                what = f"process {processes[process]} is client {name!r} here, and {entries.named[process]!r} before"
                raise entries.fault(int(block.line[row]), what)


def _client(value: Any) -> str | None:
    client = value.get("client") if isinstance(value, dict) else None
    return None if client is None else str(client)


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
