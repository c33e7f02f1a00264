"""Redis commands about replication: REPLICAOF, ROLE, WAIT, and REPLCONF and PSYNC, which replicas send.

Source: https://redis.io/docs/latest/commands/?group=server.
"""

from __future__ import annotations

from .connection import address
from .protocol import NO_REPLY, OK, ErrorReply, Reply, StatusReply, encode_command
from .replication import RedisReplication, ReplicaState
from .state import MAY_BLOCK, NO_SCRIPT, Blocked, ClientState, RedisCommand
from .values import to_integer

_GETACK = encode_command([b"REPLCONF", b"GETACK", b"*"])


def _replication(client: ClientState) -> RedisReplication:
    replication: RedisReplication = client.engine.replication
    return replication


def replconf(client: ClientState, args: list[bytes]) -> Reply:
    word = args[1].lower()
    if word == b"listening-port":
        client.replica = ReplicaState(client, to_integer(args[2]))
    elif word == b"ack":
        _replication(client).acknowledge(client, to_integer(args[2]))
        return NO_REPLY
    elif word not in (b"capa", b"ip-address", b"getack"):
        raise ErrorReply(b"ERR Unrecognized REPLCONF option: " + args[1])
    return OK


def psync(client: ClientState, _args: list[bytes]) -> Reply:
    engine, link = client.engine, _replication(client).link
    if engine.is_replica and (link is None or link.state != b"connected"):
        raise ErrorReply(b"NOMASTERLINK Can't SYNC while not connected with my master")
    if client.replica is None:
        client.replica = ReplicaState(client, 6379)
    return _replication(client).attach(client)


def _request(client: ClientState) -> str:
    """Describe the client in a log line. The real server prints its whole line of CLIENT LIST."""
    return f"user request from 'id={client.number} addr={address(client).decode()}'"


def replicaof(client: ClientState, args: list[bytes]) -> Reply:
    replication = _replication(client)
    if args[1].lower() == b"no" and args[2].lower() == b"one":
        if client.engine.is_replica:
            replication.become_primary()
            client.engine.host.log(f"MASTER MODE enabled ({_request(client)})")
        return OK
    port = to_integer(args[2], b"ERR Invalid master port")
    if not 0 <= port <= 65535:
        raise ErrorReply(b"ERR Invalid master port")
    link, host = replication.link, args[1].decode()
    if link is not None and (link.host, link.port) == (host, port):
        return StatusReply(b"OK Already connected to specified master")
    replication.follow(host, port)
    client.engine.host.log(f"REPLICAOF {host}:{port} enabled ({_request(client)})")
    return OK


def role(client: ClientState, _args: list[bytes]) -> Reply:
    replication, offset = _replication(client), client.engine.offset
    link = replication.link
    if link is not None:
        return [b"slave", link.host.encode(), link.port, link.state, offset if link.state == b"connected" else -1]
    described: list[Reply] = [
        [replica.host.encode(), b"%d" % replica.port, b"%d" % replica.acked]
        for replica in replication.replicas.values()
    ]
    return [b"master", offset, described]


def wait(client: ClientState, args: list[bytes]) -> Reply:
    engine, replication = client.engine, _replication(client)
    if engine.is_replica:
        raise ErrorReply(
            b"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica"
            b" is configured to be writable (which is not the default) writes to replicas are just local and are not"
            b" propagated."
        )
    wanted = to_integer(args[1])
    timeout_ms = to_integer(args[2], b"ERR timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise ErrorReply(b"ERR timeout is negative")
    offset = client.wait_offset
    count = replication.acked(offset)
    if count >= wanted or client.conn is None or engine.frozen_ms is not None:
        return count
    blocked = Blocked(args, lambda: replication.acked(offset))
    blocked.replicas, blocked.offset = wanted, offset
    reply = engine.block(client, blocked, timeout_ms)
    engine.after_commands.append(lambda: replication.feed(_GETACK) if replication.replicas else None)
    return reply


def config_rewrite(client: ClientState, _args: list[bytes]) -> Reply:
    """Save the configuration and the role. A real server that was started without a file answers with an error."""
    client.engine.rewrite_config()
    return OK


REWRITE = RedisCommand(b"rewrite", config_rewrite, 2, NO_SCRIPT)

COMMANDS = [
    RedisCommand(b"replconf", replconf, -1, NO_SCRIPT),
    RedisCommand(b"psync", psync, -3, NO_SCRIPT),
    RedisCommand(b"sync", psync, 1, NO_SCRIPT),
    RedisCommand(b"replicaof", replicaof, 3, NO_SCRIPT),
    RedisCommand(b"slaveof", replicaof, 3, NO_SCRIPT),
    RedisCommand(b"role", role, 1, NO_SCRIPT),
    RedisCommand(b"wait", wait, 3, NO_SCRIPT | MAY_BLOCK),
]
