"""Redis commands for administration: CONFIG, COMMAND, INFO, and those that save data.

Source: https://redis.io/docs/latest/commands/info/. INFO has the fields that clients and people read. Saving succeeds
at once and does nothing, because the server object itself stores all persistent data.
"""

from __future__ import annotations

from .config import NotSimulated
from .connection import VERSION
from .memory import BASE_BYTES, total_bytes
from .protocol import OK, SYNTAX, ErrorReply, FlatMap, Reply, StatusReply, Verbatim
from .state import DENY_OOM, MAY_BLOCK, NO_SCRIPT, NS_PER_MS, WRITE, ClientState, RedisCommand, container

Fields = dict[str, object]


def config_get(client: ClientState, args: list[bytes]) -> Reply:
    found = client.engine.config.matching(args[2:])
    return FlatMap([text.encode() for pair in found.items() for text in pair])


def config_set(client: ClientState, args: list[bytes]) -> Reply:
    if len(args) & 1:
        raise ErrorReply(SYNTAX)
    try:
        client.engine.config.assign(list(zip(args[2::2], args[3::2], strict=True)))
    except NotSimulated as refused:
        words = " ".join(arg.decode(errors="replace") for arg in args[2:])
        client.engine.lacks(client, f"the Redis command CONFIG SET {words[:80]}")
        raise refused.args[0] from None
    client.engine.refresh_guards()
    client.engine.replication.count_good()
    return OK


def config_resetstat(client: ClientState, _args: list[bytes]) -> Reply:
    client.engine.stats.clear()
    client.engine.commands_run = 0
    return OK


def _command_flags(command: RedisCommand) -> list[Reply]:
    named = {WRITE: b"write", DENY_OOM: b"denyoom", NO_SCRIPT: b"noscript", MAY_BLOCK: b"blocking"}
    words = [word for flag, word in named.items() if command.flags & flag]
    return [StatusReply(word) for word in (words if command.flags & WRITE else [b"readonly", *words])]


def command_entry(command: RedisCommand) -> Reply:
    first, last, step = command.keys
    return [command.name, command.arity, _command_flags(command), first, last, step, [], [], [], []]


def _by_name(client: ClientState) -> dict[bytes, RedisCommand]:
    return {command.name: command for command in client.engine.commands.values()}


def command(client: ClientState, _args: list[bytes]) -> Reply:
    return [command_entry(found) for found in _by_name(client).values()]


def command_count(client: ClientState, _args: list[bytes]) -> Reply:
    return len(_by_name(client))


def command_info(client: ClientState, args: list[bytes]) -> Reply:
    known = _by_name(client)
    names = [name.lower() for name in args[2:]] or list(known)
    return [command_entry(known[name]) if name in known else None for name in names]


def command_docs(client: ClientState, args: list[bytes]) -> Reply:
    known = _by_name(client)
    docs: list[Reply] = []
    for name in [name.lower() for name in args[2:]] or list(known):
        if name in known:
            docs += [name, FlatMap([b"summary", b"See redis.io", b"since", b"1.0.0", b"group", b"generic"])]
    return FlatMap(docs)


def command_list(client: ClientState, _args: list[bytes]) -> Reply:
    return list(_by_name(client))


def lastsave(client: ClientState, _args: list[bytes]) -> Reply:
    return client.engine.now_ms() // 1000


def save(_client: ClientState, _args: list[bytes]) -> Reply:
    return OK


def bgsave(_client: ClientState, _args: list[bytes]) -> Reply:
    return StatusReply(b"Background saving started")


def bgrewriteaof(_client: ClientState, _args: list[bytes]) -> Reply:
    return StatusReply(b"Background append only file rewriting started")


# INFO


def server_section(client: ClientState) -> Fields:
    engine = client.engine
    up = (engine.host.monotonic_ns() - engine.start_ns) // (1000 * NS_PER_MS)
    return {
        "redis_version": VERSION.decode(),
        "redis_mode": "standalone",
        "os": "Linux simulated x86_64",
        "arch_bits": 64,
        "process_id": 1,
        "run_id": engine.run_id,
        "tcp_port": engine.config["port"],
        "server_time_usec": engine.host.wall_ns() // 1000,
        "uptime_in_seconds": up,
        "uptime_in_days": up // 86400,
        "hz": engine.config["hz"],
        "executable": "/usr/bin/redis-server",
        "config_file": "",
    }


def _clients(client: ClientState) -> Fields:
    engine = client.engine
    normal = sum(other.replica is None for other in engine.clients.values())
    return {
        "connected_clients": normal,
        "maxclients": engine.config["maxclients"],
        "blocked_clients": len(engine.blocked),
        "tracking_clients": 0,
    }


def _memory(client: ClientState) -> Fields:
    engine = client.engine
    used = engine.memory.used if engine.memory is not None else total_bytes(engine.databases)
    limit = engine.config.number("maxmemory")
    return {
        "used_memory": used,
        "used_memory_human": f"{used / (1 << 20):.2f}M",
        "used_memory_startup": BASE_BYTES,
        "maxmemory": limit,
        "maxmemory_human": f"{limit / (1 << 20):.2f}M",
        "maxmemory_policy": engine.config["maxmemory-policy"],
        "number_of_cached_scripts": len(engine.scripts),
    }


def _persistence(client: ClientState) -> Fields:
    return {
        "loading": int(client.engine.loading),
        "async_loading": 0,
        "rdb_changes_since_last_save": client.engine.dirty,
        "rdb_bgsave_in_progress": 0,
        "rdb_last_save_time": client.engine.now_ms() // 1000,
        "rdb_last_bgsave_status": "ok",
        "aof_enabled": int(client.engine.config["appendonly"] == "yes"),
        "aof_rewrite_in_progress": 0,
        "aof_last_write_status": "ok",
    }


def _stats(client: ClientState) -> Fields:
    engine = client.engine
    counted = ["total_connections_received", "sync_full", "expired_keys", "evicted_keys", "total_error_replies"]
    return {
        "total_commands_processed": engine.commands_run,
        **{name: engine.stats.get(name, 0) for name in counted},
        "pubsub_channels": len(engine.channels),
        "pubsub_patterns": len(engine.patterns),
    }


def _replication(client: ClientState) -> Fields:
    return client.engine.replication_info()


def _keyspace(client: ClientState) -> Fields:
    return {
        f"db{db.index}": f"keys={len(db.data)},expires={len(db.expires)},avg_ttl=0"
        for db in client.engine.databases
        if db.data
    }


_SECTIONS = {
    "server": server_section,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "keyspace": _keyspace,
}


def format_sections(sections: dict[str, Fields]) -> Reply:
    texts = []
    for name, fields in sections.items():
        lines = [f"# {name.capitalize()}", *[f"{field}:{value}" for field, value in fields.items()]]
        texts.append("\r\n".join(lines) + "\r\n")
    return Verbatim("\r\n".join(texts).encode())


def info(client: ClientState, args: list[bytes]) -> Reply:
    wanted = [arg.decode(errors="replace").lower() for arg in args[1:]] or ["default"]
    show_all = any(word in ("default", "all", "everything") for word in wanted)
    chosen = {name: fill(client) for name, fill in _SECTIONS.items() if show_all or name in wanted}
    return format_sections(chosen)


COMMANDS = [
    RedisCommand(b"info", info, -1),
    RedisCommand(b"lastsave", lastsave, 1),
    RedisCommand(b"save", save, 1, NO_SCRIPT),
    RedisCommand(b"bgsave", bgsave, -1, NO_SCRIPT),
    RedisCommand(b"bgrewriteaof", bgrewriteaof, 1, NO_SCRIPT),
    container(
        b"config",
        [
            RedisCommand(b"get", config_get, -3, NO_SCRIPT),
            RedisCommand(b"set", config_set, -4, NO_SCRIPT),
            RedisCommand(b"resetstat", config_resetstat, 2, NO_SCRIPT),
        ],
    ),
    container(
        b"command",
        [
            RedisCommand(b"count", command_count, 2),
            RedisCommand(b"info", command_info, -2),
            RedisCommand(b"docs", command_docs, -2),
            RedisCommand(b"list", command_list, -2),
        ],
        command,
        -1,
    ),
]
