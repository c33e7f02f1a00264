"""The simulated Redis Sentinel server and the SENTINEL, INFO and ROLE commands that clients send to it.

Source: https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/. A sentinel watches one primary. Failure
detection, elections and failover are in :mod:`harness.sim.servers.redis.sentinel_monitor`, which lists what is not
simulated.
"""

from __future__ import annotations

from harness.sim.service import ServiceHost

from . import admin, connection, lacking, pubsub
from .protocol import NULL_ARRAY, OK, ErrorReply, FlatMap, Reply, StatusReply
from .replication import new_id
from .replication_commands import role
from .sentinel_choice import SentinelState
from .sentinel_link import WatchedInstance
from .sentinel_monitor import Monitor
from .server import Address, RedisServer
from .state import ClientState, RedisCommand, Table, container
from .values import to_integer

_NO_SUCH = b"ERR No such master with that name"


class SentinelServer(RedisServer):
    """A sentinel.

    ``primary`` is the (host, port) in its configuration file. A failover rewrites the file, and only wiping the disk
    restores it. ``peers`` are the other sentinels. Times are in milliseconds.
    """

    def __init__(
        self,
        *,
        port: int = 26379,
        name: str = "mymaster",
        primary: Address,
        quorum: int = 2,
        peers: list[Address],
        down_after_ms: int = 1000,
        failover_timeout_ms: int = 5000,
    ) -> None:
        super().__init__(port=port, persistence="no")
        self.name = name
        self.quorum = quorum
        self.peers = peers
        self.down_after_ms = down_after_ms
        self.failover_timeout_ms = failover_timeout_ms
        self.commands = _COMMANDS
        self.lacking = lacking.SENTINEL
        self._initial_primary = primary
        self._saved = SentinelState(primary)
        self._id = ""
        self.monitor: Monitor | None = None

    @property
    def primary_host(self) -> str:
        """The host that this sentinel currently considers the primary."""
        found = self._saved.primary if self.monitor is None else self.monitor.current_primary
        return found[0]

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        super().start(host, wiped=wiped)
        if wiped:
            self._saved = SentinelState(self._initial_primary)
        if wiped or not self._id:
            self._id = new_id(self)
        host.log(f"Sentinel ID is {self._id}")
        self.monitor = Monitor(
            host,
            self._id,
            self._saved,
            name=self.name,
            quorum=self.quorum,
            peers=self.peers,
            down_after_ms=self.down_after_ms,
            failover_timeout_ms=self.failover_timeout_ms,
            event=self._event,
        )

    def log_start(self, wiped: bool) -> None:
        del wiped
        self.host.log(f"Running mode=sentinel, port={self.port}.")

    def stop(self) -> None:
        super().stop()
        self.monitor = None

    def _event(self, channel: str, message: str) -> None:
        self.host.log(f"{channel} {message}")
        pubsub.deliver(self, channel.encode(), message.encode())
        self.flush_unsent()


def _monitor(client: ClientState) -> Monitor:
    assert isinstance(client.engine, SentinelServer)
    assert client.engine.monitor is not None
    return client.engine.monitor


def _find_monitor(client: ClientState, name: bytes) -> Monitor:
    monitor = _monitor(client)
    if name.decode(errors="replace") != monitor.name:
        raise ErrorReply(_NO_SUCH)
    return monitor


def _describe(found: WatchedInstance, name: str, more: dict[str, object]) -> Reply:
    flags = [found.kind, *(["s_down"] if found.down else []), *([] if found.up else ["disconnected"])]
    now = found.now_ms()
    fields: dict[str, object] = {
        "name": name,
        "ip": found.address[0],
        "port": found.address[1],
        "runid": found.run_id,
        "flags": ",".join([*flags, *([str(more.pop("flag"))] if "flag" in more else [])]),
        "link-pending-commands": len(found.pending),
        "link-refcount": 1,
        "last-ping-sent": max(0, now - found.ping_due_since_ms) if found.ping_due_since_ms else 0,
        "last-ok-ping-reply": max(0, now - found.last_answer_ms),
        "last-ping-reply": max(0, now - found.last_pong_ms),
        "down-after-milliseconds": found.down_after_ms,
        **more,
    }
    return FlatMap([str(text).encode() for pair in fields.items() for text in pair])


def _describe_primary(monitor: Monitor) -> Reply:
    found = monitor.primary
    more: dict[str, object] = {"flag": "o_down"} if monitor.objectively_down else {}
    more |= {
        "info-refresh": max(0, found.now_ms() - found.info_ms),
        "role-reported": found.role,
        "role-reported-time": max(0, found.now_ms() - found.role_since_ms),
        "config-epoch": monitor.saved.config_epoch,
        "num-slaves": len(monitor.replicas),
        "num-other-sentinels": len(monitor.peers),
        "quorum": monitor.quorum,
        "failover-timeout": monitor.failover_timeout_ms,
        "parallel-syncs": 1,
    }
    return _describe(found, monitor.name, more)


def _describe_replica(found: WatchedInstance) -> Reply:
    host, port = found.follows or ("?", 0)
    more: dict[str, object] = {
        "info-refresh": max(0, found.now_ms() - found.info_ms),
        "role-reported": found.role,
        "role-reported-time": max(0, found.now_ms() - found.role_since_ms),
        "master-link-down-time": found.link_down_ms,
        "master-link-status": "ok" if found.link_up else "err",
        "master-host": host,
        "master-port": port,
        "slave-priority": found.priority,
        "slave-repl-offset": found.offset,
        "replica-announced": 1,
    }
    return _describe(found, found.name, more)


def get_master_addr(client: ClientState, args: list[bytes]) -> Reply:
    monitor = _monitor(client)
    if args[2].decode(errors="replace") != monitor.name:
        return NULL_ARRAY
    host, port = monitor.current_primary
    return [host.encode(), b"%d" % port]


def masters(client: ClientState, _args: list[bytes]) -> Reply:
    return [_describe_primary(_monitor(client))]


def master(client: ClientState, args: list[bytes]) -> Reply:
    return _describe_primary(_find_monitor(client, args[2]))


def replicas(client: ClientState, args: list[bytes]) -> Reply:
    return [_describe_replica(found) for found in _find_monitor(client, args[2]).replicas.values()]


def sentinels(client: ClientState, args: list[bytes]) -> Reply:
    monitor = _find_monitor(client, args[2])
    return [_describe(peer, peer.name, {}) for peer in monitor.peers]


def myid(client: ClientState, _args: list[bytes]) -> Reply:
    return _monitor(client).my_id.encode()


def ckquorum(client: ClientState, args: list[bytes]) -> Reply:
    monitor = _find_monitor(client, args[2])
    usable = 1 + sum([not peer.down for peer in monitor.peers])
    majority = (len(monitor.peers) + 1) // 2 + 1
    if usable < monitor.quorum or usable < majority:
        lacking = "quorum" if usable < monitor.quorum else "majority"
        why = "reach the specified quorum for this master" if lacking == "quorum" else "reach the majority"
        raise ErrorReply(f"NOQUORUM {usable} usable Sentinels. Not enough available Sentinels to {why}".encode())
    text = f"OK {usable} usable Sentinels. Quorum and failover authorization can be reached"
    return StatusReply(text.encode())


def failover(client: ClientState, args: list[bytes]) -> Reply:
    monitor = _find_monitor(client, args[2])
    if monitor.state != "none":
        raise ErrorReply(b"INPROG Failover already in progress")
    if monitor.best_replica() is None:
        raise ErrorReply(b"NOGOODSLAVE No suitable replica to promote")
    monitor.start_failover(forced=True)
    return OK


def is_down(client: ClientState, args: list[bytes]) -> Reply:
    monitor = _monitor(client)
    down = monitor.is_down((args[2].decode(), to_integer(args[3])))
    leader, epoch = (None, 0)
    if args[5] != b"*":
        leader, epoch = monitor.vote(to_integer(args[4]), args[5].decode())
    return [int(down), (leader or "*").encode(), epoch]


def receive_hello(client: ClientState, args: list[bytes]) -> Reply:
    """Handle the message that real sentinels publish on ``__sentinel__:hello``. Only simulated sentinels send it."""
    sender, run_id, epoch, _name, host, port, config_epoch = [arg.decode() for arg in args[2:9]]
    _monitor(client).receive_hello(sender, run_id, int(epoch), (host, int(port)), int(config_epoch))
    return OK


def _status(monitor: Monitor) -> str:
    if monitor.objectively_down:
        return "odown"
    return "sdown" if monitor.primary.down else "ok"


def info(client: ClientState, args: list[bytes]) -> Reply:
    monitor = _monitor(client)
    sections_wanted = [arg.decode(errors="replace").lower() for arg in args[1:]] or ["default"]
    host, port = monitor.current_primary
    counts = f"slaves={len(monitor.replicas)},sentinels={len(monitor.peers) + 1}"
    sections: dict[str, admin.Fields] = {
        "server": {**admin.server_section(client), "redis_mode": "sentinel"},
        "sentinel": {
            "sentinel_masters": 1,
            "sentinel_tilt": int(monitor.tilt_since_ms > 0),
            "sentinel_running_scripts": 0,
            "sentinel_scripts_queue_length": 0,
            "sentinel_simulate_failure_flags": 0,
            "master0": f"name={monitor.name},status={_status(monitor)},address={host}:{port},{counts}",
        },
    }
    show_all = any(word in ("default", "all", "everything") for word in sections_wanted)
    return admin.format_sections({name: sections[name] for name in sections if show_all or name in sections_wanted})


def hello(client: ClientState, args: list[bytes]) -> Reply:
    connection.hello(client, args)
    return connection.hello_reply(client, b"sentinel", None)


def role_command(client: ClientState, args: list[bytes]) -> Reply:
    role(client, args)
    return [b"sentinel", [_monitor(client).name.encode()]]


_SENTINEL = container(
    b"sentinel",
    [
        RedisCommand(b"get-master-addr-by-name", get_master_addr, 3),
        RedisCommand(b"masters", masters, 2),
        RedisCommand(b"master", master, 3),
        RedisCommand(b"replicas", replicas, 3),
        RedisCommand(b"slaves", replicas, 3),
        RedisCommand(b"sentinels", sentinels, 3),
        RedisCommand(b"myid", myid, 2),
        RedisCommand(b"ckquorum", ckquorum, 3),
        RedisCommand(b"failover", failover, 3),
        RedisCommand(b"is-master-down-by-addr", is_down, 6),
        RedisCommand(b"hello", receive_hello, 9),
    ],
)
_SHARED: tuple[bytes, ...] = (
    b"ping",
    b"quit",
    b"reset",
    b"auth",
    b"client",
    b"subscribe",
    b"unsubscribe",
    b"psubscribe",
    b"punsubscribe",
)
_SHARED += (b"publish", b"pubsub", b"command")


def _table() -> Table:
    own = [
        _SENTINEL,
        RedisCommand(b"info", info, -1),
        RedisCommand(b"hello", hello, -1),
        RedisCommand(b"role", role_command, 1),
    ]
    families = [*connection.COMMANDS, *pubsub.COMMANDS, *admin.COMMANDS]
    chosen = [*own, *[command for command in families if command.name in _SHARED]]
    return {name: command for command in chosen for name in (command.name, command.name.upper())}


_COMMANDS = _table()
