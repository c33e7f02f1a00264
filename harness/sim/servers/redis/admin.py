"""CONFIG, COMMAND, saving, and INFO (https://redis.io/docs/latest/commands/info/).

INFO has the fields that clients and people read. Saving always succeeds at once: what "always" persistence keeps is
kept by the server object itself.
"""

from __future__ import annotations

from harness.sim.servers.redis.connection import VERSION
from harness.sim.servers.redis.memory import BASE_BYTES, total_bytes
from harness.sim.servers.redis.protocol import OK, SYNTAX, Failure, FlatMap, Reply, Status, Verbatim
from harness.sim.servers.redis.state import (
    DENY_OOM,
    MAY_BLOCK,
    NO_SCRIPT,
    NS_PER_MS,
    WRITE,
    Client,
    Command,
    container,
)

Fields = dict[str, object]


def config_get(client: Client, args: list[bytes]) -> Reply:
    found = client.engine.config.matching(args[2:])
    return FlatMap([text.encode() for pair in found.items() for text in pair])


def config_set(client: Client, args: list[bytes]) -> Reply:
    if len(args) & 1:
        raise Failure(SYNTAX)
    client.engine.config.assign(list(zip(args[2::2], args[3::2], strict=True)))
    client.engine.refresh_guards()
    return OK


def config_resetstat(client: Client, _args: list[bytes]) -> Reply:
    client.engine.stats.clear()
    client.engine.commands_run = 0
    return OK


def _command_flags(command: Command) -> list[Reply]:
    named = {WRITE: b"write", DENY_OOM: b"denyoom", NO_SCRIPT: b"noscript", MAY_BLOCK: b"blocking"}
    words = [word for flag, word in named.items() if command.flags & flag]
    return [Status(word) for word in (words if command.flags & WRITE else [b"readonly", *words])]


def command_entry(command: Command) -> Reply:
    first, last, step = command.keys
    return [command.name, command.arity, _command_flags(command), first, last, step, [], [], [], []]


def _by_name(client: Client) -> dict[bytes, Command]:
    return {command.name: command for command in client.engine.commands.values()}


def command(client: Client, _args: list[bytes]) -> Reply:
    return [command_entry(found) for found in _by_name(client).values()]


def command_count(client: Client, _args: list[bytes]) -> Reply:
    return len(_by_name(client))


def command_info(client: Client, args: list[bytes]) -> Reply:
    known = _by_name(client)
    names = [name.lower() for name in args[2:]] or list(known)
    return [command_entry(known[name]) if name in known else None for name in names]


def command_docs(client: Client, args: list[bytes]) -> Reply:
    known = _by_name(client)
    docs: list[Reply] = []
    for name in [name.lower() for name in args[2:]] or list(known):
        if name in known:
            docs += [name, FlatMap([b"summary", b"See redis.io", b"since", b"1.0.0", b"group", b"generic"])]
    return FlatMap(docs)


def command_list(client: Client, _args: list[bytes]) -> Reply:
    return list(_by_name(client))


def lastsave(client: Client, _args: list[bytes]) -> Reply:
    return client.engine.now_ms() // 1000


def save(_client: Client, _args: list[bytes]) -> Reply:
    return OK


def bgsave(_client: Client, _args: list[bytes]) -> Reply:
    return Status(b"Background saving started")


def bgrewriteaof(_client: Client, _args: list[bytes]) -> Reply:
    return Status(b"Background append only file rewriting started")


# INFO


def server_section(client: Client) -> Fields:
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


def _clients(client: Client) -> Fields:
    engine = client.engine
    normal = sum(other.replica is None for other in engine.clients.values())
    return {
        "connected_clients": normal,
        "maxclients": engine.config["maxclients"],
        "blocked_clients": len(engine.blocked),
        "tracking_clients": 0,
    }


def _memory(client: Client) -> Fields:
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


def _persistence(client: Client) -> Fields:
    return {
        "loading": 0,
        "async_loading": 0,
        "rdb_changes_since_last_save": client.engine.dirty,
        "rdb_bgsave_in_progress": 0,
        "rdb_last_save_time": client.engine.now_ms() // 1000,
        "rdb_last_bgsave_status": "ok",
        "aof_enabled": int(client.engine.config["appendonly"] == "yes"),
        "aof_rewrite_in_progress": 0,
        "aof_last_write_status": "ok",
    }


def _stats(client: Client) -> Fields:
    engine = client.engine
    counted = ["total_connections_received", "sync_full", "expired_keys", "evicted_keys", "total_error_replies"]
    return {
        "total_commands_processed": engine.commands_run,
        **{name: engine.stats.get(name, 0) for name in counted},
        "pubsub_channels": len(engine.channels),
        "pubsub_patterns": len(engine.patterns),
    }


def _replication(client: Client) -> Fields:
    return client.engine.replication_info()


def _keyspace(client: Client) -> Fields:
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


def info(client: Client, args: list[bytes]) -> Reply:
    asked = [arg.decode(errors="replace").lower() for arg in args[1:]] or ["default"]
    everything = any(word in ("default", "all", "everything") for word in asked)
    chosen = {name: fill(client) for name, fill in _SECTIONS.items() if everything or name in asked}
    return format_sections(chosen)


COMMANDS = [
    Command(b"info", info, -1),
    Command(b"lastsave", lastsave, 1),
    Command(b"save", save, 1, NO_SCRIPT),
    Command(b"bgsave", bgsave, -1, NO_SCRIPT),
    Command(b"bgrewriteaof", bgrewriteaof, 1, NO_SCRIPT),
    container(
        b"config",
        [
            Command(b"get", config_get, -3, NO_SCRIPT),
            Command(b"set", config_set, -4, NO_SCRIPT),
            Command(b"resetstat", config_resetstat, 2, NO_SCRIPT),
        ],
    ),
    Command(
        b"command",
        command,
        -1,
        subcommands={
            sub.name: sub
            for sub in [
                Command(b"count", command_count, 2),
                Command(b"info", command_info, -2),
                Command(b"docs", command_docs, -2),
                Command(b"list", command_list, -2),
            ]
        },
    ),
]
