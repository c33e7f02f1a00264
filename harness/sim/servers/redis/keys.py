"""Redis commands on keys of any type: deleting, renaming, scanning, expiry and OBJECT.

Source: https://redis.io/docs/latest/commands/?group=generic. SCAN visits keys in the order of their checksums, as the
real server does in that of its hash table, so it misses no key that is there all the time.
"""

from __future__ import annotations

from bisect import bisect_left
from zlib import crc32

from .protocol import INTEGER_RANGE, NO_KEY, OK, SYNTAX, ErrorReply, Reply, StatusReply, encode_command
from .state import WRITE, ClientState, RedisCommand, container
from .values import TYPE_NAMES, SetMembers, SortedSet, Value, glob, to_integer

_TYPES = {kind: StatusReply(name) for kind, name in TYPE_NAMES.items()}
_NONE = StatusReply(b"none")


def delete(client: ClientState, args: list[bytes]) -> Reply:
    if len(args) == 2:
        return int(client.db.remove(args[1]))
    return sum([client.db.remove(key) for key in args[1:]])


def exists(client: ClientState, args: list[bytes]) -> Reply:
    return sum([client.db.find(key) is not None for key in args[1:]])


def type_command(client: ClientState, args: list[bytes]) -> Reply:
    value = client.db.find(args[1])
    return _NONE if value is None else _TYPES[type(value)]


def keys(client: ClientState, args: list[bytes]) -> Reply:
    match = glob(args[1]).fullmatch
    return [key for key in client.db.visible() if match(key)]


def dbsize(client: ClientState, _args: list[bytes]) -> Reply:
    return len(client.db.data)


def randomkey(client: ClientState, _args: list[bytes]) -> Reply:
    found = client.db.visible()
    return client.engine.host.rng.choice(found) if found else None


def scan(client: ClientState, args: list[bytes]) -> Reply:
    cursor = _cursor(args[1])
    pattern, kind, count = _scan_options(args, 2)
    ranked = sorted([(crc32(key) + 1, key) for key in client.db.data])
    start = bisect_left(ranked, (cursor, b""))
    end = start + count
    while start < end < len(ranked) and ranked[end][0] == ranked[end - 1][0]:  # a cursor cannot part them
        end += 1
    page = [key for _, key in ranked[start:end]]
    following = ranked[end][0] if end < len(ranked) else 0
    found: list[Reply] = [
        key
        for key in page
        if (pattern is None or glob(pattern).fullmatch(key))
        and not client.db.has_expired(key)
        and (kind is None or TYPE_NAMES[type(client.db.data[key])] == kind)
    ]
    return [b"%d" % following, found]


def _cursor(text: bytes) -> int:
    if not text.isdigit() or int(text) >= 1 << 64:
        raise ErrorReply(b"ERR invalid cursor")
    return int(text)


def _scan_options(args: list[bytes], at: int) -> tuple[bytes | None, bytes | None, int]:
    pattern, kind, count = None, None, 10
    for word, value in zip(args[at::2], [*args[at + 1 :: 2], None], strict=False):
        option = word.upper()
        if value is None or option not in (b"COUNT", b"MATCH", b"TYPE"):
            raise ErrorReply(SYNTAX)
        if option == b"COUNT":
            count = to_integer(value)
            if count < 1:
                raise ErrorReply(SYNTAX)
        elif option == b"MATCH":
            pattern = value
        else:
            kind = value.lower()
    return pattern, kind, count


def _move(client: ClientState, old: bytes, new: bytes) -> None:
    db = client.db
    if old == new:
        return
    value, when = db.data[old], db.expires.get(old)
    db.forget(old)
    db.touch(old)
    db.put(new, value, when)


def rename(client: ClientState, args: list[bytes]) -> Reply:
    if client.db.find(args[1]) is None:
        raise ErrorReply(NO_KEY)
    client.db.find(args[2])
    _move(client, args[1], args[2])
    return OK


def renamenx(client: ClientState, args: list[bytes]) -> Reply:
    if client.db.find(args[1]) is None:
        raise ErrorReply(NO_KEY)
    if client.db.find(args[2]) is not None:
        return 0
    _move(client, args[1], args[2])
    return 1


def _flush_mode(args: list[bytes]) -> None:
    if len(args) > 2 or (len(args) == 2 and args[1].upper() not in (b"SYNC", b"ASYNC")):
        raise ErrorReply(SYNTAX)


def flushdb(client: ClientState, args: list[bytes]) -> Reply:
    _flush_mode(args)
    client.db.clear()
    client.engine.dirty += 1
    return OK


def flushall(client: ClientState, args: list[bytes]) -> Reply:
    _flush_mode(args)
    for db in client.engine.databases:
        db.clear()
    client.engine.dirty += 1
    return OK


# Expiry


def _conditions(args: list[bytes]) -> frozenset[bytes]:
    words = []
    for arg in args[3:]:
        if arg.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise ErrorReply(b"ERR Unsupported option " + arg)
        words.append(arg.upper())
    chosen = frozenset(words)
    if b"NX" in chosen and len(chosen) > 1:
        raise ErrorReply(b"ERR NX and XX, GT or LT options at the same time are not compatible")
    if b"GT" in chosen and b"LT" in chosen:
        raise ErrorReply(b"ERR GT and LT options at the same time are not compatible")
    return chosen


def _may_expire_at(chosen: frozenset[bytes], current: int | None, when: int) -> bool:
    if b"NX" in chosen and current is not None:
        return False
    if b"XX" in chosen and current is None:
        return False
    if b"GT" in chosen and (current is None or when <= current):
        return False
    return not (b"LT" in chosen and current is not None and when >= current)


def _expire(client: ClientState, args: list[bytes], base: int, factor: int, name: bytes) -> Reply:
    db, key, engine = client.db, args[1], client.engine
    chosen = _conditions(args) if len(args) > 3 else frozenset()
    number = to_integer(args[2])
    when = number * factor + base
    if number * factor not in INTEGER_RANGE or when not in INTEGER_RANGE:
        raise ErrorReply(b"ERR invalid expire time in '%b' command" % name)
    if db.find(key) is None:
        return 0
    if chosen and not _may_expire_at(chosen, db.expires.get(key), when):
        return 0
    if when <= engine.now_ms() and not engine.is_replica:
        db.forget(key)
        db.touch(key)
        engine.replicate_as([b"DEL", key])
        return 1
    db.expire_at(key, when)
    db.touch(key)
    engine.replicate_as([b"PEXPIREAT", key, b"%d" % when])
    return 1


def expire(client: ClientState, args: list[bytes]) -> Reply:
    return _expire(client, args, client.engine.now_ms(), 1000, b"expire")


def pexpire(client: ClientState, args: list[bytes]) -> Reply:
    return _expire(client, args, client.engine.now_ms(), 1, b"pexpire")


def expireat(client: ClientState, args: list[bytes]) -> Reply:
    return _expire(client, args, 0, 1000, b"expireat")


def pexpireat(client: ClientState, args: list[bytes]) -> Reply:
    return _expire(client, args, 0, 1, b"pexpireat")


def persist(client: ClientState, args: list[bytes]) -> Reply:
    db, key = client.db, args[1]
    if db.find(key) is None or key not in db.expires:
        return 0
    del db.expires[key]
    db.touch(key)
    return 1


def _deadline(client: ClientState, key: bytes) -> int:
    """Return the expiry time in ms, -1 if the key has none, or -2 if there is no such key."""
    if client.db.find(key) is None:
        return -2
    return client.db.expires.get(key, -1)


def ttl(client: ClientState, args: list[bytes]) -> Reply:
    when = _deadline(client, args[1])
    return when if when < 0 else (max(0, when - client.engine.now_ms()) + 500) // 1000


def pttl(client: ClientState, args: list[bytes]) -> Reply:
    when = _deadline(client, args[1])
    return when if when < 0 else max(0, when - client.engine.now_ms())


def expiretime(client: ClientState, args: list[bytes]) -> Reply:
    when = _deadline(client, args[1])
    return when if when < 0 else (when + 500) // 1000


def pexpiretime(client: ClientState, args: list[bytes]) -> Reply:
    return _deadline(client, args[1])


# OBJECT


def _encoding(value: Value) -> bytes:
    if isinstance(value, bytes):
        try:
            to_integer(value)
        except ErrorReply:
            return b"embstr" if len(value) <= 44 else b"raw"
        return b"int"
    small = len(value) <= 128
    if isinstance(value, list):
        return b"quicklist"
    if isinstance(value, SetMembers):
        integers = all(member.lstrip(b"-").isdigit() for member in value) and len(value) <= 512
        return b"intset" if integers else b"hashtable"
    if isinstance(value, SortedSet):
        return b"listpack" if small else b"skiplist"
    return b"listpack" if small and all(len(k) <= 64 and len(v) <= 64 for k, v in value.items()) else b"hashtable"


def object_encoding(client: ClientState, args: list[bytes]) -> Reply:
    value = client.db.find(args[2])
    return None if value is None else _encoding(value)


def object_freq(client: ClientState, args: list[bytes]) -> Reply:
    memory = client.engine.memory
    if client.db.find(args[2]) is None:
        return None
    if memory is None or not client.engine.config["maxmemory-policy"].endswith("lfu"):
        raise ErrorReply(
            b"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when"
            b" switching between policies at runtime LRU and LFU data will take some time to adjust."
        )
    return min(255, memory.accesses.get((client.db.index, args[2]), 0))


def object_idletime(client: ClientState, args: list[bytes]) -> Reply:
    """Return the idle time in seconds. It is known only while maxmemory is set; otherwise it is 0."""
    memory = client.engine.memory
    if args[2] not in client.db.data:
        return None
    last = memory.last_access.get((client.db.index, args[2])) if memory else None
    return 0 if last is None else max(0, client.engine.now_ms() - last) // 1000


def object_refcount(client: ClientState, args: list[bytes]) -> Reply:
    return None if client.db.find(args[2]) is None else 1


def snapshot_of(key: bytes, value: Value, when: int | None) -> bytes:
    """Return the encoded commands that create this key."""
    if isinstance(value, bytes):
        wire = encode_command([b"SET", key, value])
    elif isinstance(value, list):
        wire = encode_command([b"RPUSH", key, *value])
    elif isinstance(value, SetMembers):
        wire = encode_command([b"SADD", key, *value])
    elif isinstance(value, SortedSet):
        scored = [text for member, score in value.scores.items() for text in (b"%.17g" % score, member)]
        wire = encode_command([b"ZADD", key, *scored])
    else:
        wire = encode_command([b"HSET", key, *[text for pair in value.items() for text in pair]])
    return wire if when is None else wire + encode_command([b"PEXPIREAT", key, b"%d" % when])


_KEY = (1, 1, 1)
_ALL = (1, -1, 1)

COMMANDS = [
    RedisCommand(b"del", delete, -2, WRITE, _ALL),
    RedisCommand(b"unlink", delete, -2, WRITE, _ALL),
    RedisCommand(b"exists", exists, -2, 0, _ALL),
    RedisCommand(b"touch", exists, -2, 0, _ALL),
    RedisCommand(b"type", type_command, 2, 0, _KEY),
    RedisCommand(b"keys", keys, 2),
    RedisCommand(b"dbsize", dbsize, 1),
    RedisCommand(b"randomkey", randomkey, 1),
    RedisCommand(b"scan", scan, -2),
    RedisCommand(b"rename", rename, 3, WRITE, (1, 2, 1)),
    RedisCommand(b"renamenx", renamenx, 3, WRITE, (1, 2, 1)),
    RedisCommand(b"flushdb", flushdb, -1, WRITE),
    RedisCommand(b"flushall", flushall, -1, WRITE),
    RedisCommand(b"expire", expire, -3, WRITE, _KEY),
    RedisCommand(b"pexpire", pexpire, -3, WRITE, _KEY),
    RedisCommand(b"expireat", expireat, -3, WRITE, _KEY),
    RedisCommand(b"pexpireat", pexpireat, -3, WRITE, _KEY),
    RedisCommand(b"persist", persist, 2, WRITE, _KEY),
    RedisCommand(b"ttl", ttl, 2, 0, _KEY),
    RedisCommand(b"pttl", pttl, 2, 0, _KEY),
    RedisCommand(b"expiretime", expiretime, 2, 0, _KEY),
    RedisCommand(b"pexpiretime", pexpiretime, 2, 0, _KEY),
    container(
        b"object",
        [
            RedisCommand(b"encoding", object_encoding, 3, 0, (2, 2, 1)),
            RedisCommand(b"freq", object_freq, 3, 0, (2, 2, 1)),
            RedisCommand(b"idletime", object_idletime, 3, 0, (2, 2, 1)),
            RedisCommand(b"refcount", object_refcount, 3, 0, (2, 2, 1)),
        ],
    ),
]
