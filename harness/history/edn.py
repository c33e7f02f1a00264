"""Read and write EDN, the data notation of Clojure (https://github.com/edn-format/edn).

Symbols and characters become str, keywords :class:`Keyword`, vectors and lists tuples, sets frozensets, maps dicts
whose keys are str (a keyword without its colon), ratios Fractions, ``1.5M`` a Decimal. Of a tagged form, such as a
record or an ``#inst``, only the form is kept, except that a tuple of ``jepsen.independent`` becomes a :class:`Pair`.
Numbers are those of Clojure's reader, so ``0xff``, ``017`` and ``2r101`` are read too.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from .values import Items, Keyword, bare


class EdnError(ValueError):
    """An error in EDN text; ``at`` is its position."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


class Unfinished(EdnError):
    """An error because the text ends within a form, which begins at ``at``."""


class Pair(tuple[Any, ...]):
    """A vector that is tagged as a key with its value."""

    __slots__ = ()


CLOSING: Final = {"[": "]", "(": ")", "{": "}"}
_SPACE: Final = re.compile(r"(?:[\s,]+|;[^\n]*)*")
_ATOM: Final = re.compile(r"""[^\s,;"()\[\]{}]+""")
_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_CHARACTER: Final = re.compile(r"""\\(?:u[0-9a-fA-F]{4}|[a-zA-Z][\w]*|.)""", re.DOTALL)
_INTEGER: Final = re.compile(
    r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0([0-7]+)|([1-9][0-9]?)[rR]([0-9a-zA-Z]+)|(0|[1-9][0-9]*))N?"
)
_MARK: Final = re.compile(r"#_|\^|['`@~]+(?=[\s,\"()\[\]{}])|#(?=[\"({\[])|#(?![#'<])[^\s,;\"()\[\]{}]+")
"""Pattern of a prefix that needs a form after it."""
_LEXEME: Final = re.compile(
    r"\\(?:u[0-9a-fA-F]{4}|[a-zA-Z]\w*|.)|#<[^<>]*(?:<[^<>]*>[^<>]*)*(?:>|\Z)|[^\s,;\"()\[\]{}]+", re.DOTALL
)
"""Pattern of a token without brackets. Old versions of Clojure printed other objects as ``#<...>``."""
_FLOAT: Final = re.compile(r"[+-]?[0-9]+(?=[.eEM])(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
_RATIO: Final = re.compile(r"[+-]?[0-9]+/[0-9]+")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'"}
_NAMED: Final = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "backspace": "\b", "formfeed": "\f"}
_WORDS: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}
_SYMBOLIC: Final = {"Inf": float("inf"), "-Inf": float("-inf"), "NaN": float("nan")}
_NUMBER: Final = re.compile(r"[+-]?[0-9]")


def skip(text: str, at: int) -> int:
    """Return the position of the next form or bracket, after white space, commas, comments and discarded forms."""
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if not text.startswith("#_", at):
            return at
        at = passed(text, at + 2)


def form(text: str, at: int) -> tuple[Any, int]:
    """Read the form at ``at``; return it and the position after it. Raises EdnError."""
    at = skip(text, at)
    first = text[at : at + 1]
    if first == '"':
        return _string(text, at)
    if first in ("[", "("):
        items, end = _items(text, at, 1)
        return tuple(items), end
    if first == "{":
        return _mapping(text, at)
    if first == "#":
        return _dispatch(text, at)
    if first == "\\":
        return _character(text, at)
    atom = _ATOM.match(text, at)
    if atom is None:
        if not first:
            raise Unfinished(at, "expected a form, but the text ends")
        raise EdnError(at, f"expected a form, got {first!r}")
    return _atom(text, at, atom.group()), atom.end()


def only_form(text: str) -> Any:
    """Return the only form in ``text``. Raises EdnError."""
    value, end = form(text, 0)
    if skip(text, end) != len(text):
        raise EdnError(end, f"expected one form, got {text[:40]!r}")
    return value


class Fields:
    """A map with known positions of its values; a value is read when it is needed."""

    def __init__(self, text: str, places: dict[str, tuple[int, int]]) -> None:
        self.text = text
        self.places = places

    def value(self, name: str) -> Any:
        """Return the value of the key ``name``, None if the map does not have it. Raises EdnError."""
        if name not in self.places:
            return None
        begin, end = self.places[name]
        value, after = form(self.text, begin)
        if after != end:
            raise EdnError(begin, f"expected one form, got {self.text[begin : min(end, begin + 40)]!r}")
        return value

    def written(self, name: str) -> str:
        """Return the text of the value of the key ``name``, ``nil`` if the map does not have it."""
        begin, end = self.places.get(name, (0, 0))
        return self.text[begin:end] or "nil"

    def at(self, name: str) -> int:
        """Return the position at which the value of the key ``name`` begins."""
        return self.places[name][0]


def fields(text: str, at: int) -> tuple[Fields, int]:
    """Read the map at ``at``, tagged or not; return it and the position after it. Raises EdnError."""
    start = at = skip(text, at)
    while text.startswith("#", at) and not text.startswith("#{", at):
        at = skip(text, _tag(text, at)[1])
    if not text.startswith("{", at):
        raise _wrong(text, start, at, f"expected a map, got {text[start : start + 40]!r}")
    places: dict[str, tuple[int, int]] = {}
    at = skip(text, at + 1)
    while not text.startswith("}", at):
        key, after = form(text, at)
        name = bare(key)
        if name in places:
            raise EdnError(at, f"the key {key!r} is there twice")
        begin = skip(text, after)
        end = passed(text, begin)
        places[name] = begin, end
        at = skip(text, end)
    return Fields(text, places), at + 1


def passed(text: str, at: int) -> int:
    """Return the position after the form at ``at``, looking at brackets and strings only. Raises EdnError."""
    open_: list[str] = []
    start, missing = at, 1
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        first = text[at : at + 1]
        if not first:
            raise Unfinished(start, "expected a form, but the text ends")
        mark = _MARK.match(text, at)
        if mark is not None:
            missing += not open_ and mark.group() in ("#_", "^")
            at = mark.end()
            continue
        if first in CLOSING:
            open_.append(CLOSING[first])
            at += 1
            continue
        at = _end(text, at, open_)
        if not open_:
            missing -= 1
            if not missing:
                return at


def _end(text: str, at: int, open_: list[str]) -> int:
    """Return the position after the token at ``at``, which opens no bracket, but may close the last open one."""
    if open_ and text[at] == open_[-1]:
        open_.pop()
        return at + 1
    if text[at] == '"':
        found = _STRING.match(text, at)
        if found is None:
            raise Unfinished(at, "expected the end of the string, but the text ends")
        return found.end()
    found = _LEXEME.match(text, at)
    if found is None or (text[at] == "\\" and at + 1 == len(text)):
        raise _wrong(text, at, at + (found is not None), f"expected a form, got {text[at]!r}")
    return found.end()


def _items(text: str, start: int, width: int) -> tuple[list[Any], int]:
    closing = CLOSING[text[start + width - 1]]
    items: list[Any] = []
    at = skip(text, start + width)
    while not text.startswith(closing, at):
        if at == len(text):
            raise Unfinished(start, f"expected {closing!r}, but the text ends")
        item, at = form(text, at)
        items.append(item)
        at = skip(text, at)
    return items, at + 1


def _mapping(text: str, start: int) -> tuple[dict[str, Any], int]:
    items, end = _items(text, start, 1)
    if len(items) % 2:
        raise EdnError(start, "expected a value for each key of the map")
    found: dict[str, Any] = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        name = bare(key)
        if name in found:
            raise EdnError(start, f"the key {key!r} is there twice in a map")
        found[name] = value
    return found, end


def _string(text: str, at: int) -> tuple[str, int]:
    found = _STRING.match(text, at)
    if found is None:
        raise Unfinished(at, "expected the end of the string, but the text ends")
    inside = found.group(1)
    return (_ESCAPE.sub(lambda escape: _unescaped(escape, at), inside) if "\\" in inside else inside), found.end()


def _unescaped(escape: re.Match[str], at: int) -> str:
    code = escape.group(1)
    if code in _ESCAPED:
        return _ESCAPED[code]
    if code[0] == "u" and len(code) == 5:
        return chr(int(code[1:], 16))
    if code.isdigit():
        return chr(int(code, 8))
    raise EdnError(at, f"no string has the escape \\{code}")


def _character(text: str, at: int) -> tuple[str, int]:
    found = _CHARACTER.match(text, at)
    if found is None:
        raise Unfinished(at, "expected a character, but the text ends")
    name = found.group()[1:]
    if len(name) == 1:
        return name, found.end()
    if name in _NAMED:
        return _NAMED[name], found.end()
    if name[0] == "u" and len(name) == 5:
        return chr(int(name[1:], 16)), found.end()
    if name[0] == "o" and name[1:].isdigit():
        return chr(int(name[1:], 8)), found.end()
    raise _wrong(text, at, found.end(), f"there is no character \\{name}")


def _dispatch(text: str, at: int) -> tuple[Any, int]:
    """Read a set, a tagged form, a symbolic number or a regular expression (which Clojure prints, though it is not
    EDN)."""
    if text.startswith("#{", at):
        items, end = _items(text, at, 2)
        return frozenset(map(_hashable, items)), end
    if text.startswith('#"', at):
        return _string(text, at + 1)
    if text.startswith("#'", at):
        name = _LEXEME.match(text, at)
        assert name is not None
        return name.group(), name.end()
    tag, end = _tag(text, at)
    if tag.startswith("#"):
        if tag[1:] not in _SYMBOLIC:
            raise _wrong(text, at, end, f"there is no number ##{tag[1:]}")
        return _SYMBOLIC[tag[1:]], end
    value, end = form(text, end)
    if tag.lower().endswith(("tuple", "mapentry")):
        if isinstance(value, tuple):
            return Pair(value), end
        if isinstance(value, dict) and value.keys() == {"key", "value"}:
            return Pair((value["key"], value["value"])), end
    return value, end


def _tag(text: str, at: int) -> tuple[str, int]:
    found = _ATOM.match(text, at + 1)
    if found is None:
        raise _wrong(text, at, at + 1, "expected a tag after #")
    return found.group(), found.end()


def _atom(text: str, at: int, atom: str) -> Any:
    if atom in _WORDS:
        return _WORDS[atom]
    if atom[0] == ":":
        return Keyword(atom[1:])
    if not _NUMBER.match(atom):
        return atom
    with suppress(ValueError, ZeroDivisionError):  # a number of thousands of digits, or a ratio to 0
        if integer := _INTEGER.fullmatch(atom):
            return _whole(*integer.groups())
        if _FLOAT.fullmatch(atom):
            return Decimal(atom[:-1]) if atom.endswith("M") else float(atom)
        if _RATIO.fullmatch(atom):
            return Fraction(atom)
    raise _wrong(text, at, at + len(atom), f"expected a number, got {atom[:60]!r}")


def _whole(sign: str, hexadecimal: str, octal: str, radix: str, digits: str, decimal: str) -> int:
    """Return the integer; one of the digit groups is not empty. Raises ValueError for a digit outside the radix."""
    bases = ((hexadecimal, 16), (octal, 8), (digits, int(radix or 10)), (decimal, 10))
    value = next(int(text, base) for text, base in bases if text)
    return -value if sign == "-" else value


def _wrong(text: str, at: int, end: int, what: str) -> EdnError:
    """Return the error for the token from ``at`` to ``end``. A token at the end of the text may be truncated."""
    return (Unfinished if end == len(text) else EdnError)(at, what)


def _hashable(value: Any) -> Hashable:
    """Return ``value`` as an element of a set."""
    if isinstance(value, dict):
        return Items((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, tuple):
        return tuple(map(_hashable, value))
    return value  # type: ignore[no-any-return]


_NAME: Final = re.compile(r"[A-Za-z*!_?$%&=<>+-][A-Za-z0-9*!_?$%&=<>.+#-]*")
_CONTROL: Final = re.compile(r'[\x00-\x1f\x7f"\\]')
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def written(value: Any) -> str:
    """Return ``value``, made of JSON types and of those that :func:`form` returns, as EDN. Keys of mappings become
    keywords."""
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, Keyword | Fraction):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value}M"
    if isinstance(value, str):
        return '"' + _CONTROL.sub(lambda found: _escaped(found.group()), value) + '"'
    if isinstance(value, int):
        return f"{value}" if -(2**63) <= value < 2**63 else f"{value}N"
    if isinstance(value, float):
        if value != value:  # noqa: PLR0124
            return "##NaN"
        return repr(value) if abs(value) != float("inf") else f"##{'-' if value < 0 else ''}Inf"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{keyword(key)} {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return "#{" + " ".join(sorted(map(written, value))) + "}"
    return "[" + " ".join(map(written, value)) + "]"


def keyword(name: str) -> str:
    """Return ``name`` as a keyword, or as a string if it is not a valid keyword."""
    return f":{name}" if _NAME.fullmatch(name) else written(name)


def _escaped(character: str) -> str:
    return _SHORT.get(character) or f"\\u{ord(character):04x}"
