"""Lua scripts of the simulated Redis: value conversion, read-only globals, errors, and allowed commands."""

from __future__ import annotations

import pytest

from tests.sim.test_redis_commands import RedisBench

RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return {1,2.9,'x',true,false,{3,nil,4}}", [1, 2, b"x", 1, None, [3]]),
        ("return -3.99", -3),
        ("return redis.status_reply('fine')", "fine"),
        ("return redis.error_reply('-My Err')", "My Err"),
        ("return type(redis.call('ping'))", b"table"),
        ("return tostring(redis.call('get','none'))", b"false"),
        ("return redis.sha1hex('a')", b"86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ("return redis.call('echo',1/3)", b"0.33333333333333331"),
        ("return loadstring('return 5')()", 5),
        ("return redis.pcall('foo').err", b"ERR Unknown Redis command called from script"),
        (
            "local ok,e = pcall(redis.call,'get') return e",
            b"ERR Wrong number of args calling Redis command from script",
        ),
        ("local n = 0 for k in pairs(redis) do n = n + 1 end return n > 10", 1),
    ],
)
def test_results_are_converted_as_in_redis(code: str, expected: object) -> None:
    assert RedisBench().conn("EVAL", code, 0) == expected


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("return foo", "ERR user_script:1: Script attempted to access nonexistent global variable 'foo'"),
        ("x=1", "ERR user_script:1: Attempt to modify a readonly table"),
        ("redis.x=1", "ERR user_script:1: Attempt to modify a readonly table"),
        ("return os.time()", "ERR user_script:1: Script attempted to access nonexistent global variable 'os'"),
        ("return require('os')", "ERR user_script:1: Script attempted to access nonexistent global variable 'require'"),
        ("rawset(_G,'a',1)", "ERR Attempt to modify a readonly table"),
        ("return redis.call('multi')", "ERR This Redis command is not allowed from script"),
        ("return redis.call('set',{},1)", "ERR Lua redis lib command arguments must be strings or integers"),
        ("error({err='boom x'})", "boom x"),
        ("error('boom')", "ERR user_script:1: boom"),
    ],
)
def test_errors_name_the_script_and_the_line(code: str, message: str) -> None:
    conn = RedisBench().conn
    sha = conn("SCRIPT", "LOAD", code).decode()
    assert conn("EVAL", code, 0) == f"{message} script: {sha}, on @user_script:1."


def test_compare_and_delete_deletes_only_the_own_value() -> None:
    conn = RedisBench().conn
    conn("SET", "k", "mine")
    sha = conn("SCRIPT", "LOAD", RELEASE)
    assert conn("EVALSHA", sha, 1, "k", "other") == 0
    assert conn("EVALSHA", sha.upper(), 1, "k", "mine") == 1


def test_scripts_are_lost_by_flush_and_restart() -> None:
    bench = RedisBench()
    sha = bench.conn("SCRIPT", "LOAD", RELEASE)
    assert bench.conn("SCRIPT", "EXISTS", sha) == [1]
    bench.host.kill()
    bench.host.restart()
    conn = bench.connect()
    assert conn("EVALSHA", sha, 1, "k", "v").startswith("NOSCRIPT")
    conn("EVAL", RELEASE, 1, "k", "v")
    assert conn("EVALSHA", sha, 1, "k", "v") == 0
    assert conn("SCRIPT", "FLUSH") == "OK"
    assert conn("SCRIPT", "EXISTS", sha) == [0]


def test_read_only_scripts_cannot_write() -> None:
    conn = RedisBench().conn
    assert conn("EVAL_RO", "return redis.pcall('set','a','b')", 0) == (
        "ERR Write commands are not allowed from read-only scripts."
    )
    assert conn("EVAL", "#!lua flags=no-writes\nreturn redis.call('set','a',1)", 0).startswith("ERR Write commands")


def test_select_in_a_script_does_not_change_the_clients_database() -> None:
    conn = RedisBench().conn
    conn("EVAL", "redis.call('select',3) return redis.call('set','k3',1)", 0)
    assert conn("GET", "k3") is None
    conn("SELECT", 3)
    assert conn("GET", "k3") == b"1"


def test_a_script_accepts_thousands_of_arguments() -> None:
    conn = RedisBench().conn
    assert conn("EVAL", "return #KEYS + #ARGV", 150, *range(10_000)) == 10_000


def test_keys_do_not_expire_while_a_script_runs() -> None:
    bench = RedisBench()
    code = "redis.call('set',KEYS[1],'v','px',1) return {redis.call('pttl',KEYS[1]), redis.call('get',KEYS[1])}"
    assert bench.conn("EVAL", code, 1, "k") == [1, b"v"]


@pytest.mark.parametrize(
    "code",
    [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do\npcall(function()\nwhile true do\nend\nend)\nend",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "return coroutine.wrap(function() while true do end end)()",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "local function again() return again() end return again()",
    ],
)
def test_an_endless_script_is_killed(code: str) -> None:
    conn = RedisBench().conn
    conn("SET", "k", "mine")
    for _ in range(2):
        assert str(conn("EVAL", code, 0)).startswith("ERR Script killed by user with SCRIPT KILL... script: ")
        assert conn("EVAL", RELEASE, 1, "k", "yours") == 0
    assert conn("EVAL", "for i = 1, 1e6 do end return pcall(error, 'x')", 0) is None


def test_coroutines_and_xpcall_still_work() -> None:
    conn = RedisBench().conn
    code = "local f = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) return {f(1), f(5)}"
    assert conn("EVAL", code, 0) == [2, 10]
    code = "local ok, why = xpcall(function() error({err='E'}) end, function(e) return e.err .. '!' end) return why"
    assert conn("EVAL", code, 0) == b"E!"
