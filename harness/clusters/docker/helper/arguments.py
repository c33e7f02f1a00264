"""Arguments of the helper's requests, which are validated when they are read."""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from .nfqueue import PacketShape

T = TypeVar("T")
SHAPE_KEYS: Final = ("delay", "jitter", "loss", "rate", "reorder", "corrupt")


class RequestError(Exception):
    """Invalid request; the message names the argument, its value and what was expected."""


class Arguments:
    """Arguments of a request, validated when they are read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def _take(self, name: str, expected: str, read: Callable[[Any], T]) -> T:
        if name not in self._values:
            raise RequestError(f"{name} is missing, expected {expected}")
        value = self._values[name]
        try:
            return read(value)
        except (TypeError, ValueError, AttributeError) as error:
            raise RequestError(f"{name}: got {json.dumps(value)[:200]}, expected {expected}") from error

    def pid(self, name: str = "pid") -> int:
        return self._take(name, "a process id", _pid)

    def pids(self) -> list[int]:
        return self._take("pids", "a list of process ids", lambda value: [_pid(each) for each in _list(value)])

    def whole(self, name: str) -> int:
        return self._take(name, "a whole number", _whole)

    def whole_or(self, name: str, default: int) -> int:
        return self.whole(name) if name in self._values else default

    def number(self, name: str) -> float:
        return self._take(name, "a number", _number)

    def seconds(self, name: str) -> float:
        return self._take(name, "seconds above 0", _positive)

    def text(self, name: str) -> str:
        return self._take(name, "text", _text)

    def words(self, name: str) -> list[str]:
        return self._take(name, "a list of texts", lambda value: [_text(each) for each in _list(value)])

    def address(self) -> str:
        return self._take("address", "an IPv4 address", _address)

    def addresses(self) -> list[tuple[str, int]]:
        return self._take("addresses", "a list of [IPv4 address, port]", _ends)

    def data_or(self, name: str, default: bytes) -> bytes:
        return self._take(name, "bytes in hexadecimal", _bytes) if name in self._values else default

    def yes(self, name: str) -> bool:
        return self._values.get(name) is True

    def scripts(self) -> dict[int, str]:
        return self._take("scripts", "an object of process id to nft script", _by_pid)

    def texts(self) -> dict[int, str]:
        return self._take("texts", "an object of process id to text", _by_pid)

    def sources(self) -> dict[str, PacketShape]:
        return self._take("sources", f"an object of IPv4 address to {{{', '.join(SHAPE_KEYS)}}}", _shapes)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _pid(value: Any) -> int:
    if _whole(value) <= 0:
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError
    return value


def _positive(value: Any) -> float:
    if _number(value) <= 0:
        raise ValueError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _address(value: Any) -> str:
    return str(ipaddress.IPv4Address(_text(value)))


def _ends(value: Any) -> list[tuple[str, int]]:
    return [(_address(address), _whole(port)) for address, port in map(_list, _list(value))]


def _bytes(value: Any) -> bytes:
    return bytes.fromhex(_text(value))


def _by_pid(value: Any) -> dict[int, str]:
    return {_pid(int(pid)): _text(text) for pid, text in value.items()}


def _shapes(value: Any) -> dict[str, PacketShape]:
    return {_address(source): _shape(settings) for source, settings in value.items()}


def _shape(settings: Any) -> PacketShape:
    if set(settings) - set(SHAPE_KEYS):
        raise ValueError
    delay, jitter, loss, corrupt = (_number(settings.get(key, 0)) for key in ("delay", "jitter", "loss", "corrupt"))
    rate, reorder = settings.get("rate"), settings.get("reorder", False)
    if not isinstance(reorder, bool):
        raise TypeError
    return PacketShape(delay, jitter, loss, None if rate is None else _number(rate), reorder, corrupt)
