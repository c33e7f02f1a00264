"""Store each value of an EDN history once while reading, and interpret the values after all entries are read.

Only then is it known whether the values are ``[key value]`` pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from .calls import NEVER, NO_FENCE, NONE, Calls, Codes, Keyed, Wants
from .edn import EdnError, Pair, only_form, written
from .entries import FAIL, INFO, OK, Block, Entries, Numbers
from .grants import ANSWERS, WHOLE, GrantFields, TokenError, grant_columns
from .values import Keyword


class EdnValues(Numbers):
    """Numbers of distinct values, by their texts; ``found`` has the values. nil has NONE."""

    def __init__(self) -> None:
        super().__init__("nil")
        self.found: list[Any] = []

    def __missing__(self, text: str) -> int:
        value = _flat(text) if _FLAT.fullmatch(text) else only_form(text)
        number = NONE if value is None else len(self.found)
        if value is not None:
            self.found.append(value)
        self[text] = number
        return number


class Names(Numbers):
    """Numbers of names, by their texts; nil has NONE. ``name`` returns the name for a value."""

    def __init__(self, numbers: Numbers, name: Callable[[Any], str]) -> None:
        super().__init__("nil")
        self.numbers = numbers
        self.name = name

    def __missing__(self, text: str) -> int:
        value = only_form(text)
        number = self[text] = NONE if value is None else self.numbers[self.name(value)]
        return number


def key_name(value: Any) -> str:
    """Return a distinct name for each key: a text stays as it is unless it could be another key; others become EDN."""
    if not isinstance(value, str) or isinstance(value, Keyword):
        return written(value)
    try:
        return value if only_form(value) == value else written(value)
    except EdnError:
        return value or written(value)


OTHERS: Final = 2**40
"""The first number for processes whose names are not numbers from 0 on."""


class Processes(Numbers):
    """Numbers of processes, by their texts. Raises OverflowError for a process number of more than 63 bits."""

    def __init__(self, entries: Entries) -> None:
        super().__init__("nil")
        self.entries = entries

    def __missing__(self, text: str) -> int:
        process = only_form(text)
        if type(process) is int and process >= 2**63:
            raise OverflowError(f"process {process}")
        if type(process) is not int or not 0 <= process < OTHERS:
            process = OTHERS + len(self.entries.written)
            self.entries.written[process] = text
        number = self[text] = self.entries.processes[process]
        return number


_FLAT: Final = re.compile(r"\{:[a-z_]+ [0-9]+(?:\.[0-9]+)?(?:, :[a-z_]+ [0-9]+(?:\.[0-9]+)?)*\}")


def _flat(text: str) -> Any:
    """Read a map of numbers quickly, through JSON: a history may have as many of them as grants."""
    try:
        return msgspec.json.decode(text.replace(", :", ',"').replace("{:", '{"').replace(" ", '":'))
    except msgspec.MsgspecError:
        return only_form(text)


def settle(entries: Entries, values: EdnValues, wants: Wants, keyed: Keyed, *, clients: bool = True) -> list[Any]:
    """Set the keys of the entries and the clients of the processes, as far as the values determine them.

    ``clients`` says whether the names of clients matter. Returns the wanted values that are left.
    """
    found = values.found
    if keyed == "yes" or (keyed == "auto" and _are_pairs(entries, found)):
        found = _split(entries, found)
    if wants != "values":
        _name_clients(entries, found)
    elif clients:  # a register may hold any value, also a map that contains a client
        _name_clients(entries, found, but=REGISTERS)
    for block in entries.blocks:
        if entries.settings is None:  # in other projects' histories, a process is a client whatever its host
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
    """Return a column of the values, with an extra value for nil at the end, where the index NONE finds it."""
    return np.fromiter(found, kind, len(found))


def overrule(calls: Calls) -> None:
    """Replace the value of a write by the value in its answer, if that has one, as Knossos does.

    A client may decide what it writes only after the invocation.
    """
    process_keys = calls.named(["write", "cas"]) & (calls.result != NONE)
    calls.argument[process_keys] = calls.result[process_keys]


OPERATIONS: Final = frozenset(
    {
        *("read", "write", "cas", "acquire", "release", "lock", "unlock", "extend", "check", "enqueue", "cancel"),
        *("acquire-read", "acquire-write", "release-read", "release-write"),
        *("get", "put", "append", "txn", "dequeue", "push", "pop", "remove", "contains"),
    }
)
"""Functions whose values have keys, if any values do. Values of a client's other functions may serve the test
itself."""


def _functions_with_keys(entries: Entries) -> npt.NDArray[np.bool_]:
    """Return a mask of the functions whose values show whether there are keys, by number (at the end, for NONE)."""
    known = [name in OPERATIONS for name in entries.fs.names]
    return np.array([*(known if any(known) else [True] * len(known)), False])


def _are_pairs(entries: Entries, found: list[Any]) -> bool:
    """Return whether the values are ``[key value]`` pairs.

    They are if they are tagged as pairs, or if all values of clients are vectors of two, apart from completions without
    a value. The ``[old new]`` of a cas is such a vector too, so it proves nothing.
    """
    if any(isinstance(value, Pair) for value in found):
        return True
    pairs = _table([*(_is_pair(value) for value in found), False], np.bool_)
    inside = [_is_pair(value) and (value[1] is None or _is_pair(value[1])) for value in found]
    hollow = _table([*inside, False], np.bool_)
    looked, cas, telling = _functions_with_keys(entries), entries.fs.get("cas", NONE), False
    for block in entries.blocks:
        value = _value(block)
        nothing = (value == NONE) & np.isin(block.kind, (FAIL, INFO))
        rows = (block.process != NONE) & looked[block.f] & ~nothing
        if not pairs[value[rows]].all():
            return False
        telling = telling or bool((rows & ((block.f != cas) | hollow[value])).any())
    return telling


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and not all(map(_is_access, value))


def _is_access(value: Any) -> bool:
    """Return whether a value is a part of a transaction, ``[:read x 1]``: two of them are no ``[key value]`` pair."""
    return isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], Keyword)


def _split(entries: Entries, found: list[Any]) -> list[Any]:
    """Move the keys out of the values; return the values that are left."""
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
    looked = _functions_with_keys(entries)
    keys, codes = _table(key, np.int32), _table(code, np.int32)
    for block in entries.blocks:
        value = _value(block)
        wrong = np.flatnonzero(no_pair[value] & (block.process != NONE) & looked[block.f])
        if len(wrong):
            raise entries.fault(int(block.line[wrong[0]]), f"expected [key value], got {found[value[wrong[0]]]!r}")
        block.key = np.where(keys[value] == NONE, block.key, keys[value])
        block.value = codes[value]
    return left


REGISTERS: Final = frozenset({"read", "write", "cas"})
"""Functions whose values are the contents of registers."""


def _name_clients(entries: Entries, found: list[Any], but: Set[str] = frozenset()) -> None:
    """Name the clients of Jepsen's Hazelcast lock tests, whose values contain the client.

    Values of the functions ``but`` are not looked at.
    """
    numbers = Numbers()
    names = _table([*(numbers[_client(value)] for value in found), NONE], np.int32)
    if not numbers.names:
        return
    processes = entries.processes.names
    looked = np.array([*(name not in but for name in entries.fs.names), False])
    for block in entries.blocks:
        process_keys = np.where(looked[block.f], names[_value(block)], NONE)
        for row in np.flatnonzero((process_keys != NONE) & (block.process != NONE)).tolist():
            process, name = int(block.process[row]), numbers.names[process_keys[row]]
            if entries.named.setdefault(process, name) != name:
                number = processes[process]
                who = entries.written.get(number, number)
                what = f"process {who} is client {name!r} here, but {entries.named[process]!r} in an earlier entry"
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


def _as_grant(value: Any) -> GrantFields:
    if value is None:
        return GrantFields()
    if isinstance(value, dict):
        known = {name.replace("-", "_"): item for name, item in value.items()}
        return msgspec.convert(known, GrantFields)
    return msgspec.convert({"fence": value}, GrantFields)
