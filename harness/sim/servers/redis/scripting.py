"""Redis commands for Lua scripts: EVAL, EVALSHA and SCRIPT.

Source: https://redis.io/docs/latest/develop/interact/programmability/eval-intro/. Scripts replicate their effects. Each
script is compiled once per start of the server, and scripts do not survive a restart, as in Redis 7. Not simulated:
functions (FUNCTION, FCALL) and SCRIPT KILL.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from .lua import CompileError, Lua, ScriptError
from .protocol import NOSCRIPT, OK, OOM, SYNTAX, ErrorReply, Reply
from .state import DENY_OOM, NO_SCRIPT, OWN_EFFECTS, WRITE, ClientState, RedisCommand, ServerState, container
from .values import to_integer

_UNKNOWN = b"ERR Unknown Redis command called from script"
_ARITY = b"ERR Wrong number of args calling Redis command from script"
_FORBIDDEN = b"ERR This Redis command is not allowed from script"
_NO_WRITES = b"ERR Write commands are not allowed from read-only scripts."
_MISSING_LIBRARIES = (b"bit", b"cjson", b"cmsgpack", b"struct")
_SHEBANG_FLAGS = (b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys")


class LoadedScript:
    """A compiled script.

    ``tail_line`` is the line that Redis reports for errors in the tail call ``return redis.call(...)``, which has no
    stack frame.
    """

    __slots__ = ("code", "function", "read_only", "sha", "tail_line")

    def __init__(self, sha: bytes, code: bytes, function: Any, read_only: bool) -> None:
        self.sha = sha
        self.code = code
        self.function = function
        self.read_only = read_only
        tails = list(re.finditer(rb"return\s+redis\.call", code))
        self.tail_line = 1 + code.count(b"\n", 0, tails[-1].start() if tails else 0)


class Interpreter:
    """The Lua interpreter of a server, and the client as which scripts run commands."""

    def __init__(self, engine: ServerState) -> None:
        self.engine = engine
        self.client = ClientState(engine, None, 0)
        self.caller = self.client
        """The client that called the script."""
        self.read_only = False
        self.by_body: dict[bytes, bytes] = {}
        self.lua = Lua(self.call, self.set_resp, engine.host.rng.random, self.missing)

    def set_resp(self, version: int) -> None:
        """Accept the call; replies keep their RESP2 form."""
        if version != 2:
            self.engine.lacks(self.caller, "redis.setresp(3) in a Redis script")

    def missing(self, name: bytes) -> None:
        """Note the use of a library that Redis gives to scripts and that is missing here."""
        if name in _MISSING_LIBRARIES:
            self.engine.lacks(self.caller, f"{name.decode()} in a Redis script")

    def call(self, args: list[bytes]) -> Reply:
        """Run a command for a script. Raises ErrorReply if scripts may not call it."""
        engine = self.engine
        command = engine.commands.get(args[0]) or engine.commands.get(args[0].lower())
        if command is not None and command.subcommands is not None and len(args) > 1:
            command = command.subcommands.get(args[1].lower())
        if command is None:
            engine.note_unknown(self.caller, args)
            raise ErrorReply(_UNKNOWN)
        if not command.accepts(args):
            raise ErrorReply(_ARITY)
        flags = command.flags
        if flags & NO_SCRIPT:
            raise ErrorReply(_FORBIDDEN)
        if flags & WRITE:
            self._check_write(flags)
            engine.script_wrote = True
        return engine.call(self.client, command, args)

    def _check_write(self, flags: int) -> None:
        engine = self.engine
        if self.read_only:
            raise ErrorReply(_NO_WRITES)
        if engine.guarded:
            engine.guard_write()
            if engine.out_of_memory and flags & DENY_OOM and not engine.script_wrote:
                engine.log_refusal()
                raise ErrorReply(OOM)

    def run(
        self, client: ClientState, script: LoadedScript, keys: list[bytes], argv: list[bytes], read_only: bool
    ) -> Reply:
        engine = self.engine
        self.client.db = client.db
        self.caller = client
        self.read_only = read_only or script.read_only
        engine.script_wrote = False
        outer, engine.frozen_ms = engine.frozen_ms, engine.now_ms()
        try:
            return self.lua.run(script.function, keys, argv)
        except ScriptError as error:
            raise _describe_error(error, script) from None
        finally:
            engine.frozen_ms = outer


def _describe_error(error: ScriptError, script: LoadedScript) -> ErrorReply:
    text = error.text.removeprefix(b"-")
    line = script.tail_line if error.line is None else error.line
    return ErrorReply(text + b" script: %b, on @user_script:%d." % (script.sha, line))


def _interpreter(engine: ServerState) -> Interpreter:
    if engine.lua is None:
        engine.lua = Interpreter(engine)
    interpreter: Interpreter = engine.lua
    return interpreter


def _load(engine: ServerState, code: bytes) -> LoadedScript:
    interpreter = _interpreter(engine)
    sha = interpreter.by_body.get(code)
    if sha is None:
        sha = hashlib.sha1(code).hexdigest().encode()
    script = engine.scripts.get(sha)
    if script is None:
        read_only, body = _shebang(code)
        try:
            script = LoadedScript(sha, code, interpreter.lua.compile(body), read_only)
        except CompileError as error:
            raise ErrorReply(b"ERR Error compiling script (new function): %b" % error.args[0]) from None
        engine.scripts[sha] = script
        interpreter.by_body[code] = sha
    found: LoadedScript = script
    return found


def _shebang(code: bytes) -> tuple[bool, bytes]:
    """Return whether the shebang line forbids writes, and the code without that line."""
    if not code.startswith(b"#!"):
        return False, code
    first, newline, rest = code.partition(b"\n")
    if not newline:
        raise ErrorReply(b"ERR Invalid script shebang")
    engine_name, *options = first[2:].split()
    if engine_name != b"lua":
        raise ErrorReply(b"ERR Unexpected engine in script shebang: " + engine_name)
    flags: list[bytes] = []
    for option in options:
        if not option.startswith(b"flags="):
            raise ErrorReply(b"ERR Unknown lua shebang option: " + option)
        flags = [flag for flag in option[6:].split(b",") if flag]
    for flag in flags:
        if flag not in _SHEBANG_FLAGS:
            raise ErrorReply(b"ERR Unexpected flag in script shebang: " + flag)
    return b"no-writes" in flags, b"\n" + rest


def _key_count(args: list[bytes]) -> int:
    count = to_integer(args[2])
    if count > len(args) - 3:
        raise ErrorReply(b"ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise ErrorReply(b"ERR Number of keys can't be negative")
    return count


def _eval(client: ClientState, args: list[bytes], read_only: bool) -> Reply:
    split = 3 + _key_count(args)
    script = _load(client.engine, args[1])
    return _interpreter(client.engine).run(client, script, args[3:split], args[split:], read_only)


def _evalsha(client: ClientState, args: list[bytes], read_only: bool) -> Reply:
    engine = client.engine
    split = 3 + _key_count(args)
    script = engine.scripts.get(args[1]) or engine.scripts.get(args[1].lower())
    if script is None:
        raise ErrorReply(NOSCRIPT)
    reply: Reply = engine.lua.run(client, script, args[3:split], args[split:], read_only)
    return reply


def eval_command(client: ClientState, args: list[bytes]) -> Reply:
    return _eval(client, args, False)


def eval_ro(client: ClientState, args: list[bytes]) -> Reply:
    return _eval(client, args, True)


def evalsha(client: ClientState, args: list[bytes]) -> Reply:
    return _evalsha(client, args, False)


def evalsha_ro(client: ClientState, args: list[bytes]) -> Reply:
    return _evalsha(client, args, True)


def script_load(client: ClientState, args: list[bytes]) -> Reply:
    return _load(client.engine, args[2]).sha


def script_exists(client: ClientState, args: list[bytes]) -> Reply:
    return [int(sha.lower() in client.engine.scripts) for sha in args[2:]]


def script_flush(client: ClientState, args: list[bytes]) -> Reply:
    if len(args) > 3 or (len(args) == 3 and args[2].lower() not in (b"sync", b"async")):
        raise ErrorReply(b"ERR SCRIPT FLUSH only support SYNC|ASYNC option" if len(args) == 3 else SYNTAX)
    client.engine.scripts.clear()
    client.engine.lua = None
    return OK


def script_kill(_client: ClientState, _args: list[bytes]) -> Reply:
    raise ErrorReply(b"NOTBUSY No scripts in execution right now.")


_FLAGS = NO_SCRIPT | OWN_EFFECTS

COMMANDS = [
    RedisCommand(b"eval", eval_command, -3, _FLAGS),
    RedisCommand(b"eval_ro", eval_ro, -3, _FLAGS),
    RedisCommand(b"evalsha", evalsha, -3, _FLAGS),
    RedisCommand(b"evalsha_ro", evalsha_ro, -3, _FLAGS),
    container(
        b"script",
        [
            RedisCommand(b"load", script_load, 3, NO_SCRIPT),
            RedisCommand(b"exists", script_exists, -3, NO_SCRIPT),
            RedisCommand(b"flush", script_flush, -2, NO_SCRIPT),
            RedisCommand(b"kill", script_kill, 2, NO_SCRIPT),
        ],
    ),
]
