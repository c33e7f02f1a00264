"""RESP2 and RESP3 as Redis 7.0 reads and writes them (https://redis.io/docs/reference/protocol-spec/).

Replies are plain Python values: ``bytes`` bulk, ``int`` integer, ``None`` null, ``list`` array, :class:`Status`,
:class:`Failure`, ``float`` double, and the marked lists below for what RESP3 tells apart and RESP2 does not.
"""

from __future__ import annotations

from collections.abc import Callable

Reply = object
CRLF = b"\r\n"
MAX_BULK = 512 * 1024 * 1024
MAX_INLINE = 64 * 1024
INTEGER_RANGE = range(-(1 << 63), 1 << 63)


class Status:
    """A simple string, such as +OK."""

    __slots__ = ("text", "wire")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.wire = b"+%b\r\n" % text


class Failure(Exception):
    """An error reply; the text has its code in front, as in ``b"ERR syntax error"``."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text.replace(b"\r", b" ").replace(b"\n", b" ")


class FlatMap(list[Reply]):
    """Keys and values in turn: a map in RESP3, a flat array in RESP2."""


class SetReply(list[Reply]):
    """A set in RESP3."""


class Push(list[Reply]):
    """Out-of-band data: a push in RESP3."""


class Many(list[Reply]):
    """Several replies to one command, or none at all."""


class Verbatim(bytes):
    """A text for humans: verbatim string in RESP3."""


class NullArray:
    """The absent array of RESP2."""


OK = Status(b"OK")
QUEUED = Status(b"QUEUED")
PONG = Status(b"PONG")
NULL_ARRAY = NullArray()
NOTHING = Many()


def is_empty(reply: Reply) -> bool:
    """No reply (yet)."""
    return type(reply) is Many and not reply


SYNTAX = b"ERR syntax error"
WRONGTYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_INTEGER = b"ERR value is not an integer or out of range"
NOT_FLOAT = b"ERR value is not a valid float"
NO_KEY = b"ERR no such key"
OOM = b"OOM command not allowed when used memory > 'maxmemory'."
READONLY = b"READONLY You can't write against a read only replica."
NOREPLICAS = b"NOREPLICAS Not enough good replicas to write."
NOSCRIPT = b"NOSCRIPT No matching script. Please use EVAL."


def wrong_arity(name: bytes) -> Failure:
    return Failure(b"ERR wrong number of arguments for '%b' command" % name)


def unknown_command(args: list[bytes]) -> Failure:
    shown = b""
    for arg in args[1:]:
        if len(shown) >= 128:
            break
        shown += b"'%b' " % arg[: 128 - len(shown)]
    return Failure(b"ERR unknown command '%b', with args beginning with: %b" % (args[0][:128], shown))


def unknown_subcommand(command: bytes, sub: bytes) -> Failure:
    return Failure(b"ERR unknown subcommand '%b'. Try %b HELP." % (sub[:128], command.upper()))


def format_double(value: float) -> bytes:
    return b"%.17g" % value


def encode(reply: Reply, resp3: bool = False) -> bytes:
    kind = type(reply)
    if kind is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)  # type: ignore[arg-type, str-format]
    if kind is Status:
        return reply.wire  # type: ignore[attr-defined, no-any-return]
    if kind is int:
        return b":%d\r\n" % reply  # type: ignore[str-format]
    if reply is None:
        return b"_\r\n" if resp3 else b"$-1\r\n"
    return _ENCODERS[kind](reply, resp3)


def _aggregate(mark2: bytes, mark3: bytes, per_entry: int = 1) -> Callable[[Reply, bool], bytes]:
    def write(reply: Reply, resp3: bool) -> bytes:
        assert isinstance(reply, list)
        mark, count = (mark3, len(reply) // per_entry) if resp3 else (mark2, len(reply))
        return b"%b%d\r\n" % (mark, count) + b"".join([encode(item, resp3) for item in reply])

    return write


def _many(reply: Reply, resp3: bool) -> bytes:
    assert isinstance(reply, Many)
    return b"".join([encode(item, resp3) for item in reply])


def _failure(reply: Reply, _resp3: bool) -> bytes:
    assert isinstance(reply, Failure)
    return b"-%b\r\n" % reply.text


def _double(reply: Reply, resp3: bool) -> bytes:
    assert isinstance(reply, float)
    text = format_double(reply)
    return b",%b\r\n" % text if resp3 else b"$%d\r\n%b\r\n" % (len(text), text)


def _boolean(reply: Reply, resp3: bool) -> bytes:
    if resp3:
        return b"#t\r\n" if reply else b"#f\r\n"
    return b":1\r\n" if reply else b":0\r\n"


def _verbatim(reply: Reply, resp3: bool) -> bytes:
    assert isinstance(reply, bytes)
    text = bytes(reply)
    return b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text) if resp3 else b"$%d\r\n%b\r\n" % (len(text), text)


_ENCODERS: dict[type, Callable[[Reply, bool], bytes]] = {
    list: _aggregate(b"*", b"*"),
    FlatMap: _aggregate(b"*", b"%", 2),
    SetReply: _aggregate(b"*", b"~"),
    Push: _aggregate(b"*", b">"),
    Many: _many,
    Failure: _failure,
    float: _double,
    bool: _boolean,
    Verbatim: _verbatim,
    NullArray: lambda _reply, resp3: b"_\r\n" if resp3 else b"*-1\r\n",
}


def encode_command(args: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(args) + b"".join([b"$%d\r\n%b\r\n" % (len(arg), arg) for arg in args])


_HEADERS = [b"$%d" % length for length in range(1024)]
_COUNTS = [b"*%d" % count for count in range(1024)]
_header_of = _HEADERS.__getitem__


def parse_one(data: bytes) -> list[bytes] | None:
    """The arguments if ``data`` is exactly one command in its usual form, else None (which says nothing)."""
    parts = data.split(CRLF)
    args = parts[2::2]
    try:
        if (
            not len(parts) & 1
            and not parts[-1]
            and parts[0] == _COUNTS[len(args)]
            and parts[1:-1:2] == list(map(_header_of, map(len, args)))
            and args
        ):
            return args
    except IndexError:
        pass
    return None


class ProtocolError(Exception):
    """The peer does not speak RESP; it is told so and cut off."""


def parse_all(data: bytes) -> tuple[list[list[bytes]], bytes]:
    """Every complete command in ``data``, and what is left over. Empty commands are dropped, as Redis drops them."""
    commands: list[list[bytes]] = []
    at = 0
    while at < len(data):
        found = _multibulk(data, at) if data[at] == 0x2A else _inline(data, at)
        if found is None:
            break
        args, at = found
        if args:
            commands.append(args)
    return commands, data[at:]


def _number(text: bytes, limit: int) -> int | None:
    number = int(text) if text.lstrip(b"-").isdigit() and len(text) < 20 else None
    return number if number is not None and number <= limit else None


def _line(data: bytes, at: int, complaint: bytes) -> int:
    end = data.find(CRLF, at)
    if end < 0 and len(data) - at > MAX_INLINE:
        raise ProtocolError(complaint)
    return end


def _multibulk(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    end = _line(data, at, b"too big mbulk count string")
    if end < 0:
        return None
    count = _number(data[at + 1 : end], 1 << 20)
    if count is None:
        raise ProtocolError(b"invalid multibulk length")
    args = []
    at = end + 2
    for _ in range(count):
        found = _bulk(data, at)
        if found is None:
            return None
        arg, at = found
        args.append(arg)
    return args, at


def _bulk(data: bytes, at: int) -> tuple[bytes, int] | None:
    end = _line(data, at, b"too big bulk count string")
    if end < 0:
        return None
    if data[at] != 0x24:
        raise ProtocolError(b"expected '$', got '%c'" % data[at])
    length = _number(data[at + 1 : end], MAX_BULK)
    if length is None or length < 0:
        raise ProtocolError(b"invalid bulk length")
    start, stop = end + 2, end + 2 + length
    return (data[start:stop], stop + 2) if len(data) >= stop + 2 else None


def _inline(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    end = data.find(b"\n", at)
    if end < 0:
        if len(data) - at > MAX_INLINE:
            raise ProtocolError(b"too big inline request")
        return None
    return data[at:end].split(), end + 1


def parse_reply(data: bytes, at: int = 0) -> tuple[Reply, int] | None:
    """One RESP2 reply, for servers that are clients of others, and where it ends; None if it is not all there yet."""
    end = data.find(CRLF, at)
    if end < 0:
        return None
    mark, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if mark == b"+":
        return Status(line), at
    if mark == b"-":
        return Failure(line), at
    if mark == b":":
        return int(line), at
    size = int(line)
    if mark == b"*":
        return _parse_array(data, at, size)
    if size < 0:
        return None if mark != b"$" else (None, at)
    return (data[at : at + size], at + size + 2) if len(data) >= at + size + 2 else None


def _parse_array(data: bytes, at: int, size: int) -> tuple[Reply, int] | None:
    items = []
    for _ in range(size):
        found = parse_reply(data, at)
        if found is None:
            return None
        items.append(found[0])
        at = found[1]
    return items, at
