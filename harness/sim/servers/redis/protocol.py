"""Encoding and parsing of the Redis protocol, RESP2 and RESP3, as Redis 7.0 reads and writes it.

Source: https://redis.io/docs/reference/protocol-spec/. Replies are plain Python values: ``bytes`` (bulk string),
``int``, ``None`` (null), ``list`` (array), ``float`` (double), :class:`StatusReply` and :class:`ErrorReply`. The
``list`` and ``bytes`` subclasses below mark types that only RESP3 distinguishes.
"""

from __future__ import annotations

from collections.abc import Callable

Reply = object
CRLF = b"\r\n"
MAX_BULK = 512 * 1024 * 1024
MAX_INLINE = 64 * 1024
INTEGER_RANGE = range(-(1 << 63), 1 << 63)


class StatusReply:
    """A simple string, such as +OK."""

    __slots__ = ("text", "wire")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.wire = b"+%b\r\n" % text


class ErrorReply(Exception):
    """An error reply. The text begins with its code, as in ``b"ERR syntax error"``."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text.replace(b"\r", b" ").replace(b"\n", b" ")


class FlatMap(list[Reply]):
    """Alternating keys and values: a map in RESP3, a flat array in RESP2."""


class SetReply(list[Reply]):
    """A set in RESP3, an array in RESP2."""


class Push(list[Reply]):
    """Out-of-band data: a push in RESP3, an array in RESP2."""


class ReplySequence(list[Reply]):
    """Several replies to one command, or none."""


class Verbatim(bytes):
    """A text for people: a verbatim string in RESP3, a bulk string in RESP2."""


class NullArray:
    """The null array of RESP2."""


OK = StatusReply(b"OK")
QUEUED = StatusReply(b"QUEUED")
PONG = StatusReply(b"PONG")
NULL_ARRAY = NullArray()
NO_REPLY = ReplySequence()


def is_no_reply(reply: Reply) -> bool:
    """Return True if there is no reply, or not yet."""
    return type(reply) is ReplySequence and not reply


SYNTAX = b"ERR syntax error"
WRONGTYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_INTEGER = b"ERR value is not an integer or out of range"
NOT_FLOAT = b"ERR value is not a valid float"
NO_KEY = b"ERR no such key"
OOM = b"OOM command not allowed when used memory > 'maxmemory'."
READONLY = b"READONLY You can't write against a read only replica."
LOADING = b"LOADING Redis is loading the dataset in memory"
NOREPLICAS = b"NOREPLICAS Not enough good replicas to write."
NOSCRIPT = b"NOSCRIPT No matching script. Please use EVAL."


def wrong_arity(name: bytes) -> ErrorReply:
    """Return the error reply for a wrong number of arguments."""
    return ErrorReply(b"ERR wrong number of arguments for '%b' command" % name)


def unknown_command(args: list[bytes]) -> ErrorReply:
    """Return the error reply for an unknown command, with at most 128 bytes of its arguments."""
    shown = b""
    for arg in args[1:]:
        if len(shown) >= 128:
            break
        shown += b"'%b' " % arg[: 128 - len(shown)]
    return ErrorReply(b"ERR unknown command '%b', with args beginning with: %b" % (args[0][:128], shown))


def unknown_subcommand(command: bytes, sub: bytes) -> ErrorReply:
    """Return the error reply for an unknown subcommand."""
    return ErrorReply(b"ERR unknown subcommand '%b'. Try %b HELP." % (sub[:128], command.upper()))


def format_double(value: float) -> bytes:
    """Format a double as Redis does, with 17 significant digits."""
    return b"%.17g" % value


def encode(reply: Reply, resp3: bool = False) -> bytes:
    """Encode a reply in RESP2, or in RESP3."""
    kind = type(reply)
    if kind is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)  # type: ignore[arg-type, str-format]
    if kind is StatusReply:
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
    assert isinstance(reply, ReplySequence)
    return b"".join([encode(item, resp3) for item in reply])


def _failure(reply: Reply, _resp3: bool) -> bytes:
    assert isinstance(reply, ErrorReply)
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
    ReplySequence: _many,
    ErrorReply: _failure,
    float: _double,
    bool: _boolean,
    Verbatim: _verbatim,
    NullArray: lambda _reply, resp3: b"_\r\n" if resp3 else b"*-1\r\n",
}


def encode_command(args: list[bytes]) -> bytes:
    """Encode a command as a client sends it."""
    return b"*%d\r\n" % len(args) + b"".join([b"$%d\r\n%b\r\n" % (len(arg), arg) for arg in args])


_HEADERS = [b"$%d" % length for length in range(1024)]
_COUNTS = [b"*%d" % count for count in range(1024)]
_header_of = _HEADERS.__getitem__


def parse_one(data: bytes) -> list[bytes] | None:
    """Return the arguments if ``data`` is exactly one command in its usual form.

    None means only that this fast path does not apply; :func:`parse_all` decides.
    """
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
    """The client does not speak RESP. The server reports the error and closes the connection."""


def parse_all(data: bytes) -> tuple[list[list[bytes]], bytes]:
    """Return the complete commands in ``data`` and the remaining bytes. Empty commands are dropped, as Redis does.

    Raises ProtocolError.
    """
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


def _line(data: bytes, at: int, error_text: bytes) -> int:
    end = data.find(CRLF, at)
    if end < 0 and len(data) - at > MAX_INLINE:
        raise ProtocolError(error_text)
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
    """Parse one RESP2 reply; servers use it as clients of other servers.

    Returns the reply and the position after it, or None if it is incomplete.
    """
    end = data.find(CRLF, at)
    if end < 0:
        return None
    mark, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if mark == b"+":
        return StatusReply(line), at
    if mark == b"-":
        return ErrorReply(line), at
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
