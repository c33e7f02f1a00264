"""Redis commands on strings, with the replies and errors of 7.0.15.

Source: https://redis.io/docs/latest/commands/?group=string.
"""

from __future__ import annotations

from .keyspace import Database
from .protocol import INTEGER_RANGE, OK, SYNTAX, WRONGTYPE, ErrorReply, Reply, wrong_arity
from .state import DENY_OOM, WRITE, ClientState, RedisCommand
from .values import format_long_double, range_of, round_long_double, to_integer, to_long_double

_UNITS = {b"EX": (1000, False), b"PX": (1, False), b"EXAT": (1000, True), b"PXAT": (1, True)}


def expiry_of(now_ms: int, unit: bytes, text: bytes, command: bytes) -> int:
    """Return the expiry time in absolute milliseconds for EX, PX, EXAT or PXAT. Raises ErrorReply."""
    number = to_integer(text)
    factor, absolute = _UNITS[unit]
    if number <= 0 or number > ((1 << 63) - 1) // factor:
        raise ErrorReply(b"ERR invalid expire time in '%b' command" % command)
    when = number * factor + (0 if absolute else now_ms)
    if when not in INTEGER_RANGE:
        raise ErrorReply(b"ERR invalid expire time in '%b' command" % command)
    return when


class _Options:
    """Options of SET and GETEX."""

    __slots__ = ("condition", "get", "keep", "persist", "unit", "until")

    def __init__(self, args: list[bytes], at: int, is_set: bool) -> None:
        self.condition = self.unit = self.until = b""
        self.get = self.keep = self.persist = False
        while at < len(args):
            at += self._take(args[at].upper(), args, at, is_set)

    def _take(self, word: bytes, args: list[bytes], at: int, is_set: bool) -> int:
        timed = bool(self.unit) or self.keep or self.persist
        if is_set and word in (b"NX", b"XX") and self.condition in (b"", word):
            self.condition = word
        elif is_set and word == b"GET":
            self.get = True
        elif is_set and word == b"KEEPTTL" and not self.unit:
            self.keep = True
        elif not is_set and word == b"PERSIST" and not self.unit:
            self.persist = True
        elif word in _UNITS and not timed and at + 1 < len(args):
            self.unit, self.until = word, args[at + 1]
            return 2
        else:
            raise ErrorReply(SYNTAX)
        return 1


def set_command(client: ClientState, args: list[bytes]) -> Reply:
    db, key = client.db, args[1]
    if len(args) == 3:
        db.put(key, args[2])
        return OK
    options = _Options(args, 3, True)
    when = expiry_of(client.engine.now_ms(), options.unit, options.until, b"set") if options.unit else None
    previous = db.string(key) if options.get else None
    if options.condition and (db.find(key) is not None) != (options.condition == b"XX"):
        return previous
    if options.keep:
        when = db.expires.get(key) if db.find(key) is not None else None
    db.put(key, args[2], when)
    if options.unit and when is not None:
        client.engine.replicate_as([b"SET", key, args[2], b"PXAT", b"%d" % when])
    return previous if options.get else OK


def setnx(client: ClientState, args: list[bytes]) -> Reply:
    if client.db.find(args[1]) is not None:
        return 0
    client.db.put(args[1], args[2])
    return 1


def _set_for(client: ClientState, args: list[bytes], unit: bytes, name: bytes) -> Reply:
    when = expiry_of(client.engine.now_ms(), unit, args[2], name)
    client.db.put(args[1], args[3], when)
    client.engine.replicate_as([b"SET", args[1], args[3], b"PXAT", b"%d" % when])
    return OK


def setex(client: ClientState, args: list[bytes]) -> Reply:
    return _set_for(client, args, b"EX", b"setex")


def psetex(client: ClientState, args: list[bytes]) -> Reply:
    return _set_for(client, args, b"PX", b"psetex")


def get(client: ClientState, args: list[bytes]) -> Reply:
    return client.db.string(args[1])


def getset(client: ClientState, args: list[bytes]) -> Reply:
    previous = client.db.string(args[1])
    client.db.put(args[1], args[2])
    client.engine.replicate_as([b"SET", args[1], args[2]])
    return previous


def getdel(client: ClientState, args: list[bytes]) -> Reply:
    value = client.db.string(args[1])
    if value is not None:
        client.db.remove(args[1])
        client.engine.replicate_as([b"DEL", args[1]])
    return value


def getex(client: ClientState, args: list[bytes]) -> Reply:
    db, key, engine = client.db, args[1], client.engine
    options = _Options(args, 2, False)
    value = db.string(key)
    if value is None:
        return None
    when = expiry_of(engine.now_ms(), options.unit, options.until, b"getex") if options.unit else None
    if options.persist and key in db.expires:
        del db.expires[key]
        db.touch(key)
        engine.replicate_as([b"PERSIST", key])
    elif when is not None and when <= engine.now_ms() and not engine.is_replica:
        db.remove(key)
        engine.replicate_as([b"DEL", key])
    elif when is not None:
        db.expire_at(key, when)
        db.touch(key)
        engine.replicate_as([b"PEXPIREAT", key, b"%d" % when])
    return value


def mget(client: ClientState, args: list[bytes]) -> Reply:
    found = [client.db.find(key) for key in args[1:]]
    return [value if type(value) is bytes else None for value in found]


def mset(client: ClientState, args: list[bytes]) -> Reply:
    if not len(args) & 1:
        raise wrong_arity(b"mset")
    for key, value in zip(args[1::2], args[2::2], strict=True):
        client.db.put(key, value)
    return OK


def msetnx(client: ClientState, args: list[bytes]) -> Reply:
    if not len(args) & 1:
        raise wrong_arity(b"msetnx")
    if any(client.db.find(key) is not None for key in args[1::2]):
        return 0
    for key, value in zip(args[1::2], args[2::2], strict=True):
        client.db.put(key, value)
    return 1


def append(client: ClientState, args: list[bytes]) -> Reply:
    value = (client.db.string(args[1]) or b"") + args[2]
    client.db.replace(args[1], value)
    return len(value)


def strlen(client: ClientState, args: list[bytes]) -> Reply:
    return len(client.db.string(args[1]) or b"")


def getrange(client: ClientState, args: list[bytes]) -> Reply:
    start, stop = to_integer(args[2]), to_integer(args[3])
    value = client.db.string(args[1]) or b""
    if start < 0 and stop < 0 and start > stop:
        return b""
    stop = max(0, stop + len(value)) if stop < 0 else stop
    found = range_of(len(value), start, stop)
    return value[found.start : found.stop] if found else b""


def setrange(client: ClientState, args: list[bytes]) -> Reply:
    offset, patch = to_integer(args[2]), args[3]
    if offset < 0:
        raise ErrorReply(b"ERR offset is out of range")
    value = client.db.string(args[1]) or b""
    if not patch:
        return len(value)
    if offset + len(patch) > 512 * 1024 * 1024:
        raise ErrorReply(b"ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    value = value.ljust(offset, b"\0")
    value = value[:offset] + patch + value[offset + len(patch) :]
    client.db.replace(args[1], value)
    return len(value)


def _add(db: Database, key: bytes, step: int) -> Reply:
    value = db.find(key)
    if value is not None and type(value) is not bytes:
        raise ErrorReply(WRONGTYPE)
    number = (to_integer(value) if value is not None else 0) + step
    if number not in INTEGER_RANGE:
        raise ErrorReply(b"ERR increment or decrement would overflow")
    db.replace(key, b"%d" % number)
    return number


def incr(client: ClientState, args: list[bytes]) -> Reply:
    return _add(client.db, args[1], 1)


def decr(client: ClientState, args: list[bytes]) -> Reply:
    return _add(client.db, args[1], -1)


def incrby(client: ClientState, args: list[bytes]) -> Reply:
    return _add(client.db, args[1], to_integer(args[2]))


def decrby(client: ClientState, args: list[bytes]) -> Reply:
    step = to_integer(args[2])
    if step == INTEGER_RANGE.start:
        raise ErrorReply(b"ERR decrement would overflow")
    return _add(client.db, args[1], -step)


def incrbyfloat(client: ClientState, args: list[bytes]) -> Reply:
    value = client.db.string(args[1])
    start = to_long_double(value) if value is not None else round_long_double(to_long_double(b"0") or 0)  # type: ignore[arg-type]
    step = to_long_double(args[2])
    if start is None or step is None:
        raise ErrorReply(b"ERR increment would produce NaN or Infinity")
    text = format_long_double(round_long_double(start + step))
    client.db.replace(args[1], text)
    client.engine.replicate_as([b"SET", args[1], text, b"KEEPTTL"])
    return text


_KEY = (1, 1, 1)

COMMANDS = [
    RedisCommand(b"set", set_command, -3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"setnx", setnx, 3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"setex", setex, 4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"psetex", psetex, 4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"get", get, 2, 0, _KEY),
    RedisCommand(b"getset", getset, 3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"getdel", getdel, 2, WRITE, _KEY),
    RedisCommand(b"getex", getex, -2, WRITE, _KEY),
    RedisCommand(b"mget", mget, -2, 0, (1, -1, 1)),
    RedisCommand(b"mset", mset, -3, WRITE | DENY_OOM, (1, -1, 2)),
    RedisCommand(b"msetnx", msetnx, -3, WRITE | DENY_OOM, (1, -1, 2)),
    RedisCommand(b"append", append, 3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"strlen", strlen, 2, 0, _KEY),
    RedisCommand(b"getrange", getrange, 4, 0, _KEY),
    RedisCommand(b"substr", getrange, 4, 0, _KEY),
    RedisCommand(b"setrange", setrange, 4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"incr", incr, 2, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"decr", decr, 2, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"incrby", incrby, 3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"decrby", decrby, 3, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"incrbyfloat", incrbyfloat, 3, WRITE | DENY_OOM, _KEY),
]
