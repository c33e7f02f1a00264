"""The Lua 5.1 interpreter for Redis scripts: read-only globals as in Redis 7.0, and conversion of values both ways.

Source: https://redis.io/docs/latest/develop/interact/programmability/lua-api/. ``cjson``, ``cmsgpack``, ``struct``
and ``bit`` are missing. ``math.random`` draws from the host's seeded generator.

A script is stopped after :data:`MAX_INSTRUCTIONS` with the error that Redis gives after SCRIPT KILL, as if an operator
had stopped an endless script. Two things differ from Redis: no virtual time passes, and a script that has written is
stopped too, where Redis would answer UNKILLABLE and wait for SHUTDOWN NOSAVE. Work inside one library function (a huge
``string.rep``, a backtracking pattern) is not counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from lupa import lua51

from .protocol import ErrorReply, FlatMap, NullArray, Reply, SetReply, StatusReply, format_double

PRELUDE = b"""
local pycall, pysha, pylog, pyresp, pyrandom, pymissing, slice, slices = ...
local type, select, unpack, error, xpcall, pcall, tostring = type, select, unpack, error, xpcall, pcall, tostring
local setmetatable, getmetatable, rawset, rawget = setmetatable, getmetatable, rawset, rawget
local loadstring, setfenv, getinfo, pairs, next = loadstring, setfenv, debug.getinfo, pairs, next
local sethook, create, resume = debug.sethook, coroutine.create, coroutine.resume
local shield = {}
local spent, killed = 0, false

local function watch()
  spent = spent + 1
  if spent < slices then return end
  killed = true
  sethook(watch, 'l') -- check at every line from now on, so that pcall cannot catch the error
  error({err = "ERR Script killed by user with SCRIPT KILL..."}, 0)
end

local function rewind()
  spent, killed = 0, false
  sethook(watch, '', slice)
end
rewind()

local function returned(...)
  if killed then sethook(watch, 'l') end
  return ...
end

local function unwrapped(ok, ...)
  if killed then sethook(watch, 'l') end
  if not ok then error((...), 0) end
  return ...
end

function coroutine.create(body)
  local thread = create(body)
  sethook(thread, watch, '', slice)
  return thread
end
function coroutine.resume(thread, ...) return returned(resume(thread, ...)) end
function coroutine.wrap(body)
  local thread = coroutine.create(body)
  return function(...) return unwrapped(resume(thread, ...)) end
end

local function refuse() error("Attempt to modify a readonly table", 2) end

local function locked(real)
  local proxy = setmetatable({}, {__index = real, __newindex = refuse})
  shield[proxy] = real
  return proxy
end

local redis = {LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3, REPL_NONE = 0, REPL_SLAVE = 1,
  REPL_REPLICA = 1, REPL_AOF = 2, REPL_ALL = 3, REDIS_VERSION = "7.0.15", REDIS_VERSION_NUM = 0x0007000f}

local function answer(raising, value, mark)
  if not mark then return value end
  if mark == 1 then return {ok = value} end
  local failure = {err = value}
  if raising then error(failure, 0) end
  return failure
end

function redis.call(...) return answer(true, pycall(...)) end
function redis.pcall(...) return answer(false, pycall(...)) end

local function single(field)
  return function(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then return {err = "ERR wrong number or type of arguments"} end
    return {[field] = text}
  end
end
redis.status_reply = single('ok')
local plain_error = single('err')

function redis.error_reply(...)
  local reply = plain_error(...)
  -- Redis 7 takes the first word for the code, and prepends ERR to a text of one word (luaPushErrorBuff).
  local text = string.gsub(reply.err, '^%-', '')
  reply.err = string.find(text, ' ', 1, true) and text or 'ERR ' .. text
  return reply
end

function redis.sha1hex(...)
  if select('#', ...) ~= 1 then error({err = "ERR wrong number of arguments"}, 0) end
  local text = ...
  return pysha((type(text) == 'string' or type(text) == 'number') and tostring(text) or '')
end

function redis.log(level, ...)
  if select('#', ...) < 1 then error({err = "ERR redis.log() requires two arguments or more."}, 0) end
  if type(level) ~= 'number' then error({err = "ERR First argument must be a number (log level)."}, 0) end
  if level < 0 or level > 3 then error({err = "ERR Invalid log level."}, 0) end
  pylog(level, ...)
end

function redis.setresp(version)
  if version ~= 2 and version ~= 3 then error({err = "ERR RESP version must be 2 or 3."}, 0) end
  pyresp(version)
end
function redis.replicate_commands() return true end
function redis.set_repl() end
function redis.breakpoint() return false end
function redis.debug() end
function redis.acl_check_cmd() return true end

local backing = setmetatable({}, {__index = function(_, name)
  pymissing(name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end})
local env = locked(backing)

local open = {assert = assert, collectgarbage = collectgarbage, error = error, gcinfo = gcinfo, ipairs = ipairs,
  next = function(t, k) return next(shield[t] or t, k) end, pairs = function(t) return pairs(shield[t] or t) end,
  rawequal = rawequal, select = select, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack,
  _VERSION = _VERSION, coroutine = coroutine, string = string, table = table, math = math,
  redis = redis}
function open.pcall(...)
  return (function(ok, ...)
    local failure = ...
    if not ok and type(failure) == 'table' and failure.err ~= nil then return ok, failure.err end
    return ok, ...
  end)(pcall(...))
end
function open.xpcall(body, on_error)
  return xpcall(body, function(...)
    if killed then return ... end -- hooks do not run here, so an endless handler could not be stopped
    return on_error(...)
  end)
end
function open.getmetatable(t) if shield[t] then return nil end return getmetatable(t) end
function open.setmetatable(t, m)
  if shield[t] then error({err = "ERR Attempt to modify a readonly table"}, 0) end
  return setmetatable(t, m)
end
function open.rawset(t, k, v)
  if shield[t] then error({err = "ERR Attempt to modify a readonly table"}, 0) end
  return rawset(t, k, v)
end
function open.rawget(t, k) return rawget(shield[t] or t, k) end
function open.loadstring(code, name)
  if type(code) == 'string' and code:byte() == 27 then return nil, "bytecode is not allowed" end
  local body, complaint = loadstring(code, name)
  if body then return setfenv(body, env) end
  return nil, complaint
end
function open.load(reader, name)
  local pieces = {}
  for piece in reader do
    if piece == '' then break end
    pieces[#pieces + 1] = piece
  end
  return open.loadstring(table.concat(pieces), name)
end
math.random = pyrandom
math.randomseed = function() end
for name, value in pairs(open) do
  rawset(backing, name, type(value) == 'table' and locked(value) or value)
end
backing._G = env

local function handler(failure)
  if killed then rewind() end
  if type(failure) ~= 'table' then failure = {err = 'ERR ' .. tostring(failure)} end
  if rawget(failure, 'err') == nil then failure.err = 'ERR unknown error' end
  for level = 2, 12 do
    local where = getinfo(level, 'Sl')
    if not where then break end
    if where.source == '@user_script' then
      failure.source, failure.line = where.source, where.currentline
      break
    end
  end
  return failure
end

local function finish(ok, value)
  if ok then return value end
  return value, true
end

local function compile(code)
  if code:byte() == 27 then return nil, "bytecode is not allowed" end
  local body, complaint = loadstring(code, '@user_script')
  if body then return setfenv(body, env) end
  return nil, complaint
end

local function run(body, keys, ...)
  spent = 0
  if keys == 1 then
    backing.KEYS, backing.ARGV = {(...)}, {select(2, ...)}
  else
    local all = {...}
    backing.KEYS, backing.ARGV = {unpack(all, 1, keys)}, {unpack(all, keys + 1)}
  end
  return finish(xpcall(body, handler))
end

local function run_big(body, keys, argv)
  spent = 0
  backing.KEYS, backing.ARGV = keys, argv
  return finish(xpcall(body, handler))
end

return compile, run, run_big
"""

MAX_INSTRUCTIONS = 5_000_000
SLICE = 100_000
"""The limit is checked after each this many instructions."""

MAX_DIRECT = 200
"""More arguments than this are passed to Lua in tables."""


class CompileError(Exception):
    """The script does not compile. The argument is Lua's error message."""


class Lua:
    """One Lua interpreter. ``call`` runs a command for the script; ``draw`` returns random numbers in [0, 1);
    ``missing`` is called with the name of a global variable that a script reads and that does not exist."""

    def __init__(
        self,
        call: Callable[[list[bytes]], Reply],
        set_resp: Callable[[int], None],
        draw: Callable[[], float],
        missing: Callable[[bytes], None],
    ):
        self._runtime = lua51.LuaRuntime(
            encoding=None, unpack_returned_tuples=True, register_eval=False, register_builtins=False
        )
        self._call = call
        self._draw = draw
        self.log: list[tuple[int, bytes]] = []
        prelude = self._runtime.compile(PRELUDE)
        handlers = (self._called, _sha1hex, self._logged, set_resp, self._random, missing)
        self._compile, self._run, self._run_big = prelude(*handlers, SLICE, MAX_INSTRUCTIONS // SLICE)

    def compile(self, code: bytes) -> Any:
        """Return the compiled function. Raises CompileError."""
        made = self._compile(code)
        if type(made) is tuple:
            raise CompileError(made[1])
        return made

    def run(self, function: Any, keys: list[bytes], argv: list[bytes]) -> Reply:
        """Run a compiled script and return its result as a reply. Raises ScriptError."""
        if len(keys) + len(argv) <= MAX_DIRECT:
            result = self._run(function, len(keys), *keys, *argv)
        else:
            result = self._run_big(function, self._runtime.table_from(keys), self._runtime.table_from(argv))
        kind = type(result)
        if kind is bytes or kind is int:
            return result
        if kind is tuple:
            raise ScriptError(result[0])
        return from_lua(result)

    # Functions that scripts call

    def _called(self, *args: Any) -> Any:
        try:
            reply = self._call(_arguments(args))
        except ErrorReply as failure:
            return failure.text, 2
        kind = type(reply)
        if kind is bytes or kind is int:
            return reply
        if reply is None:
            return False
        if kind is StatusReply:
            return reply.text, 1  # type: ignore[attr-defined]
        return self._to_lua(reply)

    def _to_lua(self, reply: Reply) -> Any:
        if reply is None or isinstance(reply, NullArray):
            return False
        if isinstance(reply, StatusReply):
            return self._field(b"ok", reply.text)
        if isinstance(reply, ErrorReply):
            return self._field(b"err", reply.text)
        if isinstance(reply, float):
            return format_double(reply)
        if isinstance(reply, list):
            return self._runtime.table_from([self._to_lua(item) for item in reply])
        return bytes(reply) if isinstance(reply, bytes) else reply

    def _field(self, name: bytes, value: Any) -> Any:
        return self._runtime.table_from({name: value})

    def _logged(self, level: int, *words: Any) -> None:
        self.log.append((int(level), b" ".join([word if isinstance(word, bytes) else b"%r" % word for word in words])))

    def _random(self, low: float | None = None, high: float | None = None) -> float:
        if low is None:
            return self._draw()
        first, last = (1, int(low)) if high is None else (int(low), int(high))
        if last < first:
            raise ValueError("interval is empty")
        return first + int(self._draw() * (last - first + 1))


class ScriptError(Exception):
    """An error that the script raised, read from its error table: text, source and line."""

    def __init__(self, table: Any) -> None:
        message = table[b"err"]
        self.text = message if isinstance(message, bytes) else b"ERR unknown error"
        self.source = table[b"source"]
        self.line = table[b"line"]


def _sha1hex(data: bytes) -> bytes:
    return hashlib.sha1(data).hexdigest().encode()


def _arguments(args: tuple[Any, ...]) -> list[bytes]:
    if not args:
        raise ErrorReply(b"ERR Please specify at least one argument for this redis lib call")
    made = list(args)
    for index, arg in enumerate(made):
        if type(arg) is not bytes:
            if type(arg) not in (int, float):
                raise ErrorReply(b"ERR Lua redis lib command arguments must be strings or integers")
            made[index] = b"%.17g" % float(arg)
    return made


def _to_int(number: float) -> int:
    limit = float(1 << 63)
    return int(number) if -limit <= number < limit else -(1 << 63)


def from_lua(value: Any) -> Reply:
    """Convert a script's result to a reply, as Redis does."""
    if value is None or value is False:
        return None
    if value is True:
        return 1
    if isinstance(value, int | float):
        return _to_int(value)
    if isinstance(value, bytes):
        return value
    return _from_table(value) if lua51.lua_type(value) == "table" else None


def _from_table(table: Any) -> Reply:
    failure, status, double = table[b"err"], table[b"ok"], table[b"double"]
    if isinstance(failure, bytes):
        return ErrorReply(failure.removeprefix(b"-"))
    if isinstance(status, bytes):
        return StatusReply(status.replace(b"\r", b" ").replace(b"\n", b" "))
    if isinstance(double, int | float):
        return float(double)
    for field, kind in ((b"map", FlatMap), (b"set", SetReply)):
        if table[field] is not None and lua51.lua_type(table[field]) == "table":
            pairs = list(table[field].items())
            flat = [item for pair in pairs for item in (pair if kind is FlatMap else pair[:1])]
            return kind([from_lua(item) for item in flat])
    return _array(table)


def _array(table: Any) -> list[Reply]:
    items = []
    at = 1
    while (item := table[at]) is not None:
        items.append(from_lua(item))
        at += 1
    return items
