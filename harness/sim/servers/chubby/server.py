"""A simulated Chubby server: one replica of a cell, as a service on a host.

Chubby is internal to Google and cannot be run elsewhere; this follows Burrows, "The Chubby lock service for
loosely-coupled distributed systems", OSDI 2006. Clients may send requests to any replica: one that is not the master
answers which replica is, if it knows. Other modules: :mod:`~harness.sim.servers.chubby.protocol` (messages),
:mod:`~harness.sim.servers.chubby.replica` (consensus and its simplifications),
:mod:`~harness.sim.servers.chubby.files` (the database), :mod:`~harness.sim.servers.chubby.sessions` and
:mod:`~harness.sim.servers.chubby.master` (the master's operations).
"""

from __future__ import annotations

from harness.sim.service import Conn, ServiceHost

from .calls import ClientRequest, OnCommand
from .files import FILE, SESSION, file_of
from .master import Master
from .protocol import NOT_MASTER, PORT, Message, lines
from .replica import Replica, ReplicaDisk


class ChubbyServer:
    """A replica's :class:`harness.sim.service.Service`. ``peers`` are the hosts of the other replicas. ``disk`` is what
    it kept of an earlier life; without one it has an empty disk, and its cell is new.

    ``lease``, ``grace`` and ``lock_delay`` are in seconds and apply to every session. Without them a session has the
    lease and the lock-delay that its client requests, and a grace period in the paper's proportion to the lease.
    """

    port = PORT

    def __init__(
        self,
        peers: list[str],
        *,
        lease: float | None = None,
        grace: float | None = None,
        lock_delay: float | None = None,
        disk: ReplicaDisk | None = None,
    ) -> None:
        self._peers = peers
        self._options = (lease, grace, lock_delay)
        self.disk = disk
        self.replica: Replica | None = None
        self.master: Master | None = None
        self.on_command: OnCommand | None = None
        """Called with (client host, operation name) for each executed operation, before its answer is sent."""

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self._host = host
        first = self.disk is None
        if self.disk is None or wiped:
            self.disk = ReplicaDisk(voter=first)
        self.replica = Replica(host, self.disk, self._peers, self._on_leading, first=first)

    def stop(self) -> None:
        self.replica = self.master = None

    def _on_leading(self, leading: bool) -> None:
        master, self.master = self.master, None
        if leading and self.replica is not None:
            self.master = Master(self.replica, *self._options)
        elif master is not None:
            master.retire()

    def opened(self, conn: Conn) -> None:
        conn.session = b""

    def received(self, conn: Conn, data: bytes) -> None:
        messages, conn.session = lines(conn.session, data)
        for message in messages:
            if self.replica is None:  # the previous message has caused a kill
                return
            if "k" in message:
                self.replica.on_message(conn, message)
            else:
                self._on_request(self.replica, conn, message)

    def _on_request(self, replica: Replica, conn: Conn, body: Message) -> None:
        call = ClientRequest(conn, body, replica.now(), self.on_command)
        if replica.serves() and self.master is not None:
            self.master.serve(call)
        else:
            call.refuse(NOT_MASTER, master=replica.master)

    def closed(self, conn: Conn) -> None:
        if self.master is not None:
            self.master.connection_lost(conn)

    # For observers.

    @property
    def known_master(self) -> tuple[int, str | None]:
        """(epoch of this replica's database, host of the master that it knows or None)."""
        if self.replica is None:
            return (0, None)
        return (self.replica.disk.epoch, self.replica.master)

    def peek(self, name: str) -> tuple[str, int | None, str] | None:
        """Return the holder of a file's lock in this replica's database, None if there is none.

        The result is (handle, ns until its session expires or None if this is not the master, client host).
        """
        row = None if self.disk is None else file_of(self.disk.rows, name)
        if self.disk is None or row is None or not row["holders"]:
            return None
        handle, session = next(iter(row["holders"].items()))
        left = None if self.master is None else self.master.left(session)
        return handle, left, self.disk.rows.get(SESSION + session, {}).get("host", "")

    def size(self) -> int:
        """Return the number of files in this replica's database."""
        return 0 if self.disk is None else sum(key.startswith(FILE) for key in self.disk.rows)
