"""Redis commands on sorted sets, without ZRANGE BYLEX (https://redis.io/docs/latest/commands/?group=sorted-set)."""

from __future__ import annotations

from .protocol import SYNTAX, ErrorReply, Reply
from .state import DENY_OOM, WRITE, ClientState, RedisCommand
from .values import SortedSet, range_of, to_float, to_integer

_NOT_RANGE = b"ERR min or max is not a float"
_LIMIT = b"ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
_FLAGS = (b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR")


def _zset(client: ClientState, key: bytes) -> SortedSet:
    return client.db.typed(key, SortedSet) or SortedSet()


def zadd(client: ClientState, args: list[bytes]) -> Reply:
    flags: dict[bytes, None] = {}
    at = 2
    while at < len(args) and args[at].upper() in _FLAGS:
        flags[args[at].upper()] = None
        at += 1
    return _zadd(client, args[1], flags, args[at:])


def zincrby(client: ClientState, args: list[bytes]) -> Reply:
    return _zadd(client, args[1], {b"INCR": None}, args[2:])


def _check_flags(flags: dict[bytes, None], rest: list[bytes]) -> None:
    if not rest or len(rest) & 1:
        raise ErrorReply(SYNTAX)
    if b"NX" in flags and b"XX" in flags:
        raise ErrorReply(b"ERR XX and NX options at the same time are not compatible")
    if sum([flag in flags for flag in (b"GT", b"LT", b"NX")]) > 1:
        raise ErrorReply(b"ERR GT, LT, and/or NX options at the same time are not compatible")
    if b"INCR" in flags and len(rest) > 2:
        raise ErrorReply(b"ERR INCR option supports a single increment-element pair")


def _zadd(client: ClientState, key: bytes, flags: dict[bytes, None], rest: list[bytes]) -> Reply:
    _check_flags(flags, rest)
    scores = [to_float(text) for text in rest[0::2]]
    target = client.db.typed(key, SortedSet)
    if target is None and b"XX" in flags:
        return None if b"INCR" in flags else 0
    target = target or SortedSet()
    added = changed = 0
    last: float | None = None
    for score, member in zip(scores, rest[1::2], strict=True):
        before = target.scores.get(member)
        last = _new_score(flags, before, score)
        if last is not None and last != before:
            target.put(member, last)
            added += before is None
            changed += before is not None
    if added or changed:
        client.db.data[key] = target
        client.db.touch(key)
    if b"INCR" in flags:
        return last
    return added + changed if b"CH" in flags else added


def _new_score(flags: dict[bytes, None], before: float | None, score: float) -> float | None:
    """Return the score to store, or None if the flags forbid the change."""
    if before is None:
        return None if b"XX" in flags else score
    if b"NX" in flags:
        return None
    if b"INCR" in flags:
        score += before
        if score != score:  # noqa: PLR0124 - NaN
            raise ErrorReply(b"ERR resulting score is not a number (NaN)")
    if (b"GT" in flags and score <= before) or (b"LT" in flags and score >= before):
        return None
    return score


def zrem(client: ClientState, args: list[bytes]) -> Reply:
    target = _zset(client, args[1])
    return _remove_members(client, args[1], target, args[2:])


def _remove_members(client: ClientState, key: bytes, target: SortedSet, members: list[bytes]) -> int:
    removed = sum([target.discard(member) for member in members])
    if removed:
        client.db.delete_if_empty(key, target)
    return removed


def zscore(client: ClientState, args: list[bytes]) -> Reply:
    return _zset(client, args[1]).scores.get(args[2])


def zcard(client: ClientState, args: list[bytes]) -> Reply:
    return len(_zset(client, args[1]))


def zrank(client: ClientState, args: list[bytes]) -> Reply:
    return _zset(client, args[1]).rank(args[2])


def zrevrank(client: ClientState, args: list[bytes]) -> Reply:
    found = _zset(client, args[1])
    rank = found.rank(args[2])
    return None if rank is None else len(found) - 1 - rank


# Ranges


def _bound(text: bytes) -> tuple[float, bool]:
    exclusive = text[:1] == b"("
    return to_float(text[exclusive:] or b"0", _NOT_RANGE), exclusive


def _between(found: SortedSet, low: bytes, high: bytes) -> list[tuple[float, bytes]]:
    (least, above), (most, below) = _bound(low), _bound(high)
    return [
        pair
        for pair in found.order
        if (pair[0] > least if above else pair[0] >= least) and (pair[0] < most if below else pair[0] <= most)
    ]


def _members_with_scores(client: ClientState, pairs: list[tuple[float, bytes]], scores: bool) -> Reply:
    if not scores:
        return [member for _, member in pairs]
    if client.resp3:
        return [[member, score] for score, member in pairs]
    return [item for score, member in pairs for item in (member, score)]


class _RangeOptions:
    def __init__(self, args: list[bytes], allowed: tuple[bytes, ...]) -> None:
        self.words: dict[bytes, None] = {}
        self.offset, self.limit = 0, -1
        at = 4
        while at < len(args):
            word = args[at].upper()
            if word not in allowed or (word == b"LIMIT" and at + 2 >= len(args)):
                raise ErrorReply(SYNTAX)
            self.words[word] = None
            if word == b"LIMIT":
                self.offset, self.limit = to_integer(args[at + 1]), to_integer(args[at + 2])
                at += 2
            at += 1

    def page(self, pairs: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
        if self.offset < 0:
            return []
        return pairs[self.offset :] if self.limit < 0 else pairs[self.offset : self.offset + self.limit]


def zrange(client: ClientState, args: list[bytes]) -> Reply:
    options = _RangeOptions(args, (b"WITHSCORES", b"REV", b"BYSCORE", b"LIMIT"))
    words = options.words
    if b"LIMIT" in words and b"BYSCORE" not in words:
        raise ErrorReply(_LIMIT)
    rev = b"REV" in words
    if b"BYSCORE" in words:
        low, high = (args[3], args[2]) if rev else (args[2], args[3])
        _bound(low), _bound(high)
        pairs = _between(_zset(client, args[1]), low, high)
        pairs = options.page(pairs[::-1] if rev else pairs)
    else:
        start, stop = to_integer(args[2]), to_integer(args[3])
        pairs = _by_rank(_zset(client, args[1]), start, stop, rev)
    return _members_with_scores(client, pairs, b"WITHSCORES" in words)


def _by_rank(found: SortedSet, start: int, stop: int, rev: bool) -> list[tuple[float, bytes]]:
    order = found.order[::-1] if rev else found.order
    chosen = range_of(len(order), start, stop)
    return order[chosen.start : chosen.stop] if chosen else []


def zrevrange(client: ClientState, args: list[bytes]) -> Reply:
    options = _RangeOptions(args, (b"WITHSCORES", b"LIMIT"))
    if b"LIMIT" in options.words:
        raise ErrorReply(_LIMIT)
    start, stop = to_integer(args[2]), to_integer(args[3])
    return _members_with_scores(
        client, _by_rank(_zset(client, args[1]), start, stop, True), b"WITHSCORES" in options.words
    )


def zrangebyscore(client: ClientState, args: list[bytes]) -> Reply:
    options = _RangeOptions(args, (b"WITHSCORES", b"LIMIT"))
    _bound(args[2]), _bound(args[3])
    pairs = options.page(_between(_zset(client, args[1]), args[2], args[3]))
    return _members_with_scores(client, pairs, b"WITHSCORES" in options.words)


def zcount(client: ClientState, args: list[bytes]) -> Reply:
    _bound(args[2]), _bound(args[3])
    return len(_between(_zset(client, args[1]), args[2], args[3]))


def zremrangebyscore(client: ClientState, args: list[bytes]) -> Reply:
    _bound(args[2]), _bound(args[3])
    target = _zset(client, args[1])
    return _remove_members(client, args[1], target, [member for _, member in _between(target, args[2], args[3])])


def zremrangebyrank(client: ClientState, args: list[bytes]) -> Reply:
    start, stop = to_integer(args[2]), to_integer(args[3])
    target = _zset(client, args[1])
    return _remove_members(client, args[1], target, [member for _, member in _by_rank(target, start, stop, False)])


_KEY = (1, 1, 1)

COMMANDS = [
    RedisCommand(b"zadd", zadd, -4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"zincrby", zincrby, 4, WRITE | DENY_OOM, _KEY),
    RedisCommand(b"zrem", zrem, -3, WRITE, _KEY),
    RedisCommand(b"zscore", zscore, 3, 0, _KEY),
    RedisCommand(b"zcard", zcard, 2, 0, _KEY),
    RedisCommand(b"zrank", zrank, 3, 0, _KEY),
    RedisCommand(b"zrevrank", zrevrank, 3, 0, _KEY),
    RedisCommand(b"zrange", zrange, -4, 0, _KEY),
    RedisCommand(b"zrevrange", zrevrange, -4, 0, _KEY),
    RedisCommand(b"zrangebyscore", zrangebyscore, -4, 0, _KEY),
    RedisCommand(b"zcount", zcount, 4, 0, _KEY),
    RedisCommand(b"zremrangebyscore", zremrangebyscore, 4, WRITE, _KEY),
    RedisCommand(b"zremrangebyrank", zremrangebyrank, 4, WRITE, _KEY),
]
