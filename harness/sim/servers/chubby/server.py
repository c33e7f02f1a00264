"""A simulated Chubby cell's server: one of its replicas, as a program on a host.

Chubby is Google's own and nobody else can run it; this follows Burrows, "The Chubby lock service for loosely-coupled
distributed systems", OSDI 2006. Clients may ask any replica: one that is not the master says who is, as far as it
knows. The rest is in the modules beside this one: :mod:`~harness.sim.servers.chubby.protocol` (what is said),
:mod:`~harness.sim.servers.chubby.replica` (consensus, and what is abstracted of it),
:mod:`~harness.sim.servers.chubby.files` (the database), :mod:`~harness.sim.servers.chubby.sessions` and
:mod:`~harness.sim.servers.chubby.master` (the master's part).
"""

from __future__ import annotations

from ...service import Conn, ServiceHost
from .calls import Call, OnCommand
from .files import FILE, SESSION, file_of
from .master import Master
from .protocol import NOT_MASTER, PORT, Message, lines
from .replica import Disk, Replica


class ChubbyServer:
    """A service (:class:`harness.sim.service.Service`). ``peers`` are the hosts of the other replicas. ``lease``,
    ``grace`` and ``lock_delay`` are seconds for every session; without them a session has the lease and the lock-delay
    that its client asks for, and a grace period in the paper's proportion to its lease."""

    port = PORT

    def __init__(
        self,
        peers: list[str],
        *,
        lease: float | None = None,
        grace: float | None = None,
        lock_delay: float | None = None,
    ) -> None:
        self._peers = peers
        self._options = (lease, grace, lock_delay)
        self._disk: Disk | None = None
        self.replica: Replica | None = None
        self.master: Master | None = None
        self.on_command: OnCommand | None = None
        """Told (client's host, name of the operation) when one has been executed, before its answer leaves."""

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self._host = host
        first = self._disk is None
        if self._disk is None or wiped:
            self._disk = Disk(voter=first)
        self.replica = Replica(host, self._disk, self._peers, self._led, first=first)

    def stop(self) -> None:
        self.replica = self.master = None

    def _led(self, leading: bool) -> None:
        master, self.master = self.master, None
        if leading and self.replica is not None:
            self.master = Master(self.replica, *self._options)
        elif master is not None:
            master.over()

    def opened(self, conn: Conn) -> None:
        conn.session = b""

    def received(self, conn: Conn, data: bytes) -> None:
        messages, conn.session = lines(conn.session, data)
        for message in messages:
            if self.replica is None:  # killed by what the last one caused
                return
            if "k" in message:
                self.replica.heard(conn, message)
            else:
                self._asked(self.replica, conn, message)

    def _asked(self, replica: Replica, conn: Conn, body: Message) -> None:
        call = Call(conn, body, replica.now(), self.on_command)
        if replica.serves() and self.master is not None:
            self.master.serve(call)
        else:
            call.refuse(NOT_MASTER, master=replica.master)

    def closed(self, conn: Conn) -> None:
        if self.master is not None:
            self.master.lost(conn)

    # What observers ask.

    @property
    def named(self) -> tuple[int, str | None]:
        """The newest epoch that this replica has heard of a master in, and who that is."""
        if self.replica is None:
            return (0, None)
        return (self.replica.disk.epoch, self.replica.master)

    def peek(self, name: str) -> tuple[str, int | None, str] | None:
        """The handle that holds a file's lock, how many ns its session has left (None: only the master counts), and its
        client's host, as this replica's database has it; disturbs nothing."""
        row = None if self._disk is None else file_of(self._disk.rows, name)
        if self._disk is None or row is None or not row["holders"]:
            return None
        handle, session = next(iter(row["holders"].items()))
        left = None if self.master is None else self.master.left(session)
        return handle, left, self._disk.rows.get(SESSION + session, {}).get("host", "")

    def size(self) -> int:
        """Files in its copy of the database."""
        return 0 if self._disk is None else sum(key.startswith(FILE) for key in self._disk.rows)
