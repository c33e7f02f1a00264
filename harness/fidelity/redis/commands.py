"""Random sequences of Redis commands whose replies do not depend on the clock, on hash order or on randomness."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

KEYS = ["a", "b", "c", "lk", "hk", "zk", "sk"]
VALUES = ["", "x", "10", "-3", "007", "3.5", "hello", "9223372036854775807", "1e3", "0x1F", "a b\r\nc", " 5"]
NUMBERS = ["0", "1", "2", "-1", "-2", "5", "x", "1.5", "9223372036854775807", "-9223372036854775808", "00"]
FLOATS = ["0", "1", "1.5", "-2.25", "inf", "-inf", "nan", "x", "1e2", "0.1", "3."]
LONG_FLOATS = [
    "1e-7",
    "1e17",
    "9007199254740993",
    "5e300",
    "1e-4000",
    "0x1p-3",
    "2.7182818284590452354",
    "1e-19",
    "-0.3",
]
FIELDS = ["f", "g", "h"]
UNITS = ["EX", "PX", "EXAT", "PXAT", "ex"]
FUTURE = ["4102444800", "4102444800000", "100000", "0", "-1", "x", "9223372036854775807"]
BOUNDS = ["-inf", "+inf", "(1", "2", "(2.5", "0", "x", "("]

Words = list[str]


class RedisCommandGenerator:
    """Generates commands by calling one of its ``make_`` methods at random."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.makers: list[Callable[[], Words]] = [
            getattr(self, name) for name in sorted(dir(type(self))) if name.startswith("make_")
        ]

    def sequence(self, length: int) -> list[Words]:
        return [self.command() for _ in range(length)]

    def command(self) -> Words:
        words = self.rng.choice(self.makers)()
        if words[0] in ("blpop", "brpop"):
            return words
        if self.rng.random() < 0.02:
            words = words[:-1] or words
        if self.rng.random() < 0.02:
            words = [*words, self.rng.choice(VALUES)]
        if self.rng.random() < 0.1:
            words[0] = words[0].upper()
        return words

    def one(self, *options: Words) -> str:
        return self.rng.choice(self.rng.choice(options))

    def key(self) -> str:
        return self.rng.choice(KEYS)

    def value(self) -> str:
        return self.rng.choice(VALUES)

    def some(self, options: Words, most: int = 3) -> Words:
        return [self.rng.choice(options) for _ in range(self.rng.randint(1, most))]

    def maybe(self, *words: str) -> Words:
        return list(words) if self.rng.random() < 0.4 else []

    def make_set(self) -> Words:
        words = ["set", self.key(), self.value()]
        for option in (["NX"], ["XX"], ["GET"], ["KEEPTTL"], ["nx"]):
            if self.rng.random() < 0.15:
                words += option
        if self.rng.random() < 0.3:
            words += [self.rng.choice(UNITS), self.rng.choice(FUTURE)]
        return words

    def make_string(self) -> Words:
        name = self.one(["get", "strlen", "getdel", "incr", "decr", "getset", "setnx", "append"])
        return [name, self.key(), *([self.value()] if name in ("getset", "setnx", "append") else [])]

    def make_expiring(self) -> Words:
        return [self.one(["setex", "psetex"]), self.key(), self.one(["100000", "0", "x", "-5"]), self.value()]

    def make_getex(self) -> Words:
        unit = self.maybe(self.rng.choice(UNITS), self.rng.choice(FUTURE)) or self.maybe("PERSIST")
        return ["getex", self.key(), *unit]

    def make_many(self) -> Words:
        name = self.one(["mset", "msetnx"])
        return [name, *[word for key in self.some(KEYS) for word in (key, self.value())]]

    def make_keys_of(self) -> Words:
        return [self.one(["mget", "del", "unlink", "exists", "touch"]), *self.some(KEYS)]

    def make_number(self) -> Words:
        return [self.one(["incrby", "decrby"]), self.key(), self.rng.choice(NUMBERS)]

    def make_float(self) -> Words:
        """Also numbers whose sums show the 64 bits of the mantissa of a long double."""
        rng = self.rng
        decimal = f"{rng.choice(['', '-'])}{rng.randint(0, 10 ** rng.randint(1, 18))}.{rng.randint(0, 10**18):018d}"
        return ["incrbyfloat", self.key(), rng.choice([*FLOATS[:4], *FLOATS[6:], *LONG_FLOATS, decimal, decimal])]

    def make_range(self) -> Words:
        name = self.one(["getrange", "lrange", "ltrim", "zremrangebyrank"])
        return [name, self.key(), self.rng.choice(NUMBERS), self.rng.choice(NUMBERS)]

    def make_setrange(self) -> Words:
        return ["setrange", self.key(), self.one(["0", "1", "5", "-1", "x"]), self.value()]

    def make_expire(self) -> Words:
        name, when = self.one(["expireat", "pexpireat", "expire"]), self.rng.choice(FUTURE)
        if name == "expire":
            return [name, self.key(), when]
        return [name, self.key(), when, *self.maybe(self.one(["NX", "XX", "GT", "LT", "QQ"])), *self.maybe("gt")]

    def make_look(self) -> Words:
        return [self.one(["type", "persist", "expiretime", "pexpiretime", "hgetall", "smembers", "scard"]), self.key()]

    def make_db(self) -> Words:
        return self.rng.choice(
            [["select", "0"], ["dbsize"], ["select", "99"], ["select", "y"], ["echo", "x"], ["ping"]]
        )

    def make_rename(self) -> Words:
        return [self.one(["rename", "renamenx"]), self.key(), self.key()]

    def make_hset(self) -> Words:
        fields = [word for field in self.some(FIELDS) for word in (field, self.value())]
        return [self.one(["hset", "hmset"]), self.rng.choice(["hk", "hk", self.key()]), *fields]

    def make_hash(self) -> Words:
        name = self.one(["hget", "hexists", "hdel", "hmget", "hstrlen", "hsetnx"])
        value = [self.value()] if name == "hsetnx" else []
        return [name, self.rng.choice(["hk", self.key()]), self.rng.choice(FIELDS), *value]

    def make_hash_whole(self) -> Words:
        return [self.one(["hkeys", "hvals", "hlen", "hgetall"]), self.rng.choice(["hk", self.key()])]

    def make_hincrby(self) -> Words:
        return ["hincrby", self.rng.choice(["hk", self.key()]), self.rng.choice(FIELDS), self.rng.choice(NUMBERS)]

    def make_push(self) -> Words:
        name = self.one(["lpush", "rpush", "lpushx", "rpushx"])
        return [name, self.rng.choice(["lk", "lk", self.key()]), *self.some(VALUES)]

    def make_pop(self) -> Words:
        count = self.maybe(self.rng.choice(NUMBERS))
        return [self.one(["lpop", "rpop"]), self.rng.choice(["lk", self.key()]), *count]

    def make_list(self) -> Words:
        name = self.one(["llen", "lindex", "lrem", "lset"])
        more = {"llen": [], "lindex": [self.rng.choice(NUMBERS)]}
        return [name, self.rng.choice(["lk", self.key()]), *more.get(name, [self.rng.choice(NUMBERS), self.value()])]

    def make_move(self) -> Words:
        sides = [self.one(["LEFT", "right", "UP"]), self.one(["LEFT", "RIGHT"])]
        return self.rng.choice([["rpoplpush", "lk", self.key()], ["lmove", "lk", self.key(), *sides]])

    def make_block_full(self) -> Words:
        return self.rng.choice([["blpop", "lk", "0.01"], ["brpop", "hk", "lk", "0.01"], ["blpop", "lk", "x"]])

    def make_members(self) -> Words:
        name = self.one(["sadd", "sadd", "srem", "sismember", "smismember"])
        members = self.some(["m", "10", "n", "-5", "zz"], 1 if name == "sismember" else 3)
        return [name, self.rng.choice(["sk", "sk", self.key()]), *members]

    def make_zadd(self) -> Words:
        words = ["zadd", self.rng.choice(["zk", "zk", self.key()])]
        for option in ("NX", "XX", "GT", "LT", "CH", "INCR"):
            if self.rng.random() < 0.1:
                words.append(option)
        return words + [word for member in self.some(FIELDS) for word in (self.rng.choice(FLOATS), member)]

    def make_zset(self) -> Words:
        name = self.one(["zrem", "zscore", "zrank", "zrevrank", "zincrby"])
        score = [self.rng.choice(FLOATS)] if name == "zincrby" else []
        return [name, self.rng.choice(["zk", self.key()]), *score, self.rng.choice(FIELDS)]

    def make_zrange(self) -> Words:
        bounds = [self.rng.choice(NUMBERS), self.rng.choice(NUMBERS)]
        options = self.maybe("WITHSCORES") + self.maybe("REV")
        return [self.one(["zrange", "zrevrange"]), "zk", *bounds, *options, *self.maybe("LIMIT", "0", "1")]

    def make_zscores(self) -> Words:
        name = self.one(["zrangebyscore", "zcount", "zremrangebyscore", "zcard"])
        options = self.maybe("WITHSCORES") + self.maybe("LIMIT", self.rng.choice(NUMBERS), "2")
        bounds = [self.rng.choice(BOUNDS), self.rng.choice(BOUNDS)]
        more = {"zrangebyscore": bounds + options, "zcard": []}
        return [name, "zk", *more.get(name, bounds)]

    def make_zbyscore(self) -> Words:
        bounds = [self.rng.choice(BOUNDS), self.rng.choice(BOUNDS)]
        return ["zrange", "zk", *bounds, "BYSCORE", *self.maybe("REV"), *self.maybe("LIMIT", "0", "2")]

    def make_transaction(self) -> Words:
        return self.rng.choice([["multi"], ["exec"], ["exec"], ["discard"], ["watch", self.key()], ["unwatch"]])

    def make_nonsense(self) -> Words:
        return self.rng.choice(
            [
                ["nonsense", "x"], ["config", "get", "maxmemory"], ["config", "nope"], ["scan", "x"],
                ["publish", "c", "m"], ["scan", "0", "COUNT", "0"], ["flushall", "x"], ["client", "nope"],
                ["wait", "0", "0"], ["object", "nope"], ["config", "set", "maxmemory", "x"], ["client", "getname"],
                ["script", "nope"], ["pubsub", "channels"], ["wait", "x", "1"], ["client", "reply", "x"],
                ["hello", "9", "x"], ["auth", "a", "b"],
            ]
        )  # fmt: skip

    def make_script(self) -> Words:
        return ["eval", self.rng.choice(SCRIPTS), "1", self.key(), self.value()]

    def make_script_call(self) -> Words:
        words = self.command()
        if words[0].lower() in ("eval", "multi", "exec"):
            return ["ping"]
        how = self.one(["call", "pcall"])
        return ["eval", f"return redis.{how}(unpack(ARGV))", "0", *words]


SCRIPTS = [
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end",
    "return {KEYS[1],ARGV[1],#ARGV,1.9,false,true,{1,{}},nil,3}",
    "return redis.call('set',KEYS[1],ARGV[1])",
    "redis.call('set',KEYS[1],ARGV[1]) return redis.pcall('incr',KEYS[1])",
    "return redis.call('incr',KEYS[1])",
    "return type(redis.call('get',KEYS[1]))",
    "return redis.call('hgetall',KEYS[1])",
    "local r=redis.pcall('lrange',KEYS[1],0,-1) if r.err then return redis.error_reply('MINE '..r.err) end return r",
    "return redis.status_reply(KEYS[1])",
    "return redis.sha1hex(ARGV[1])",
    "return tonumber(ARGV[1])",
    "return nosuch",
    "x = 1",
    "error('boom')",
    "error({err='MINE boom'})",
    "return {err='ERR mine'}",
    "return string.rep(ARGV[1],3)",
    "return redis.call('nosuch')",
    "return redis.call('set',KEYS[1])",
    "return redis.call('zadd',KEYS[1],1.5,'f')",
    "return redis.call('zscore',KEYS[1],'f')",
    "return redis.call('ttl',KEYS[1])==-2",
    "return #redis.call('mget',KEYS[1],'nokey')",
    "return redis.call('mget',KEYS[1],'nokey')",
    "return redis.call('echo',1/3)",
    "return redis.call({})",
    "return math.floor(3.7)..tostring(nil)",
    "local t={} for i,v in ipairs(ARGV) do t[i]=v..i end return t",
    "return 1 +",
    "return pcall(function() return redis.call('get') end)",
    "return unpack({1,2})",
    "return function() end",
    "string.x = 1",
    "local function f(n) if n == 0 then return nothere end return f(n-1) end return f(3)",
    "\n\nreturn redis.call('lpush',KEYS[1],ARGV[1],ARGV[1])",
]
