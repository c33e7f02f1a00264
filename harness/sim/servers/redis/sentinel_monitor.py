"""A sentinel's failure detection, leader election and failover (sentinel.c of Redis 7.0).

Source: https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/. Votes, epochs, majorities and all
periods are those of the real sentinel. Simplified: the other sentinels are configured, not discovered, and hello
messages go to them directly instead of through the watched servers' pub/sub. While a primary has no known replica, INFO
is sent each second, so that a cluster started all at once is fully watched as early as one started in stages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from harness.sim.service import ServiceHost

from .protocol import Reply
from .sentinel_choice import SentinelState, best_replica, most_voted, votes_of
from .sentinel_link import INFO_MS, Address, WatchedInstance, info_fields, replicas_in
from .state import NS_PER_MS

ASK_MS = 1000
HELLO_MS = 2000
TILT_TRIGGER_MS = 2000
TILT_MS = 30_000
DESYNC_MS = 1000
ELECTION_MS = 10_000
CONVERT_AFTER_MS = 4 * HELLO_MS
OPINION_MS = 5 * ASK_MS


class Monitor:
    """The running part of one sentinel. ``event`` is called with channel and message of each published event."""

    def __init__(
        self,
        host: ServiceHost,
        my_id: str,
        saved: SentinelState,
        *,
        name: str,
        quorum: int,
        peers: list[Address],
        down_after_ms: int,
        failover_timeout_ms: int,
        event: Callable[[str, str], None],
    ) -> None:
        self.host = host
        self.my_id = my_id
        self.saved = saved
        self.name = name
        self.quorum = quorum
        self.down_after_ms = down_after_ms
        self.failover_timeout_ms = failover_timeout_ms
        self.event = event
        self.peers = [self._instance("sentinel", address) for address in peers]
        self.tilt_since_ms = 0
        self.last_tick_ms = self.now_ms()
        self.last_hello_ms = 0
        self.failover_start_ms = 0
        self._watch(saved.primary, saved.replicas)
        self.event("+monitor", f"{self._describe(self.primary)} quorum {quorum}")
        self._tick()

    def now_ms(self) -> int:
        return self.host.wall_ns() // NS_PER_MS

    def _instance(self, kind: str, address: Address) -> WatchedInstance:
        return WatchedInstance(self.host, self.now_ms, kind, address, self.down_after_ms)

    def _watch(self, primary: Address, replicas: list[Address]) -> None:
        """Watch this primary and these replicas, with no failover in progress."""
        self.primary = self._instance("master", primary)
        self.replicas = {address: self._instance("slave", address) for address in replicas}
        self.objectively_down = False
        self._leave_failover()

    def _leave_failover(self) -> None:
        self.state = "none"
        self.state_since_ms = 0
        self.failover_epoch = 0
        self.promoted: WatchedInstance | None = None
        self.forced = False

    def _enter(self, state: str, about: WatchedInstance | None = None) -> None:
        """Enter a failover state. An event is published if ``about`` is given; the real sentinel skips two states."""
        self.state, self.state_since_ms = state, self.now_ms()
        if about is not None:
            self.event("+failover-state-" + state, self._describe(about))

    def _describe(self, found: WatchedInstance) -> str:
        primary = f"{self.name} {self.primary.address[0]} {self.primary.address[1]}"
        if found.kind == "master":
            return "master " + primary
        return f"{found.kind} {found.name} {found.address[0]} {found.address[1]} @ {primary}"

    # Periodic work

    def _tick(self) -> None:
        self._check_tilt()
        instances = [self.primary, *self.replicas.values(), *self.peers]
        for found in instances:
            found.reconnect()
            found.ping_if_due()
        self._ask_info()
        self._send_hello()
        if not self.tilt_since_ms:
            for found in instances:
                self._update_subjectively_down(found)
            self._update_objectively_down()
            self._step()
        self.host.call_later(1000 * NS_PER_MS // (10 + self.host.rng.randrange(10)), self._tick)

    def _check_tilt(self) -> None:
        now = self.now_ms()
        passed, self.last_tick_ms = now - self.last_tick_ms, now
        if not 0 <= passed <= TILT_TRIGGER_MS:
            self.tilt_since_ms = now
            self.event("+tilt", "#tilt mode entered")
        elif self.tilt_since_ms and now - self.tilt_since_ms > TILT_MS:
            self.tilt_since_ms = 0
            self.event("-tilt", "#tilt mode exited")

    def _ask_info(self) -> None:
        now = self.now_ms()
        failing = self.objectively_down or self.state != "none"
        for found in [self.primary, *self.replicas.values()]:
            frequent = found.kind == "slave" and (failing or found.link_down_ms > 0)
            frequent = frequent or (found.kind == "master" and not self.replicas)
            if found.up and now - found.info_ms > (1000 if frequent else INFO_MS):
                found.info_ms = now
                found.send(["INFO"], partial(self._handle_info, found))

    # INFO

    def _handle_info(self, found: WatchedInstance, reply: Reply) -> None:
        fields = info_fields(reply)
        if "role" not in fields:
            return
        life = found.run_id
        found.learn(fields)
        if life not in ("", found.run_id):
            self.event("+reboot", self._describe(found))
        if found is self.primary and found.role == "master":
            for address in replicas_in(fields):
                self._add_replica(address)
        if self.tilt_since_ms or found.kind != "slave":
            return
        if found.role == "master":
            self._replica_claims_primacy(found)
        else:
            self._check_follows(found)

    def _add_replica(self, address: Address) -> None:
        if address not in self.replicas:
            self.replicas[address] = self._instance("slave", address)
            self.saved.replicas = list(self.replicas)
            self.event("+slave", self._describe(self.replicas[address]))

    def _replica_claims_primacy(self, found: WatchedInstance) -> None:
        if found is self.promoted and self.state == "wait-promotion":
            self.saved.config_epoch = self.failover_epoch
            self.event("+promoted-slave", self._describe(found))
            self._enter("reconf-slaves", self.primary)
            self._send_hello(at_once=True)
        elif found is not self.promoted and self._settled(found, found.role_since_ms, CONVERT_AFTER_MS):
            found.send_replicaof(self.primary.address)
            self.event("+convert-to-slave", self._describe(found))

    def _check_follows(self, found: WatchedInstance) -> None:
        if found.reconfigured == "sent" and self.promoted and found.follows == self.promoted.address:
            found.reconfigured = "inprog"
            self.event("+slave-reconf-inprog", self._describe(found))
        if found.reconfigured == "inprog" and found.link_up:
            found.reconfigured = "done"
            self.event("+slave-reconf-done", self._describe(found))
        wrong = found.follows != self.primary.address and self.state == "none"
        if wrong and self._settled(found, found.follows_since_ms, self.failover_timeout_ms):
            found.send_replicaof(self.primary.address)
            self.event("+fix-slave-config", self._describe(found))

    def _settled(self, found: WatchedInstance, since_ms: int, wait_ms: int) -> bool:
        """Return True if the primary works, and the server has been up in this state long enough to be corrected."""
        now = self.now_ms()
        sane = self.primary.role == "master" and not self.primary.down and now - self.primary.info_ms < 2 * INFO_MS
        quiet = not found.down and now - found.last_down_ms > wait_ms
        return sane and quiet and now - since_ms > wait_ms

    # Down

    def _update_subjectively_down(self, found: WatchedInstance) -> None:
        if found.looks_down():
            found.last_down_ms = self.now_ms()
            if not found.down:
                found.down_since_ms = found.last_down_ms
                self.event("+sdown", self._describe(found))
        elif found.down:
            found.down_since_ms = 0
            self.event("-sdown", self._describe(found))

    def _update_objectively_down(self) -> None:
        now = self.now_ms()
        opinions = sum([peer.reports_down and now - peer.reported_ms < OPINION_MS for peer in self.peers])
        agreed = self.primary.down and 1 + opinions >= self.quorum
        if agreed != self.objectively_down:
            self.objectively_down = agreed
            extra = f" #quorum {1 + opinions}/{self.quorum}" if agreed else ""
            self.event("+odown" if agreed else "-odown", self._describe(self.primary) + extra)

    def _ask_peers(self, force: bool = False) -> None:
        """Ask the other sentinels whether they see the primary down, and during an election for their votes."""
        now = self.now_ms()
        candidate = self.my_id if self.state != "none" else "*"
        for peer in self.peers:
            if peer.up and self.primary.down and (force or now - peer.asked_ms >= ASK_MS):
                peer.asked_ms = now
                where = [self.primary.address[0], str(self.primary.address[1])]
                words = ["SENTINEL", "is-master-down-by-addr", *where, str(self.saved.current_epoch), candidate]
                peer.send(words, partial(self._handle_is_down_reply, peer))

    def _handle_is_down_reply(self, peer: WatchedInstance, reply: Reply) -> None:
        if not isinstance(reply, list) or len(reply) != 3:
            return
        down, leader, epoch = reply
        peer.reports_down, peer.reported_ms = down == 1, self.now_ms()
        if isinstance(leader, bytes) and leader != b"*" and isinstance(epoch, int):
            if epoch != peer.vote_epoch:
                self.host.log(f"{peer.name} voted for {leader.decode()} {epoch}")
            peer.vote, peer.vote_epoch = leader.decode(), epoch

    def is_down(self, address: Address) -> bool:
        """Answer another sentinel: return True if this one sees the primary at ``address`` down."""
        return not self.tilt_since_ms and address == self.primary.address and self.primary.down

    def _update_epoch(self, epoch: int) -> None:
        if epoch > self.saved.current_epoch:
            self.saved.current_epoch = epoch
            self.event("+new-epoch", str(epoch))

    def vote(self, epoch: int, candidate: str) -> tuple[str | None, int]:
        """Vote for the first candidate of a new epoch. Return the candidate voted for and its epoch."""
        saved = self.saved
        self._update_epoch(epoch)
        if saved.vote(epoch, candidate):
            self.event("+vote-for-leader", f"{candidate} {saved.leader_epoch}")
            if candidate != self.my_id:
                self.failover_start_ms = self.now_ms() + self.host.rng.randrange(DESYNC_MS)
        return saved.leader, saved.leader_epoch

    def _leader(self) -> str | None:
        """Return the candidate with a majority of all sentinels and at least quorum votes in this epoch, or None."""
        votes = votes_of(self.peers, self.saved.current_epoch)
        mine, epoch = self.vote(self.failover_epoch, most_voted(votes) or self.my_id)
        if mine is not None and epoch == self.failover_epoch:
            votes[mine] = votes.get(mine, 0) + 1
        winner = most_voted(votes)
        needed = max((len(self.peers) + 1) // 2 + 1, self.quorum)
        return winner if winner is not None and votes[winner] >= needed else None

    # Failover

    def _step(self) -> None:
        now = self.now_ms()
        if self.state == "none":
            if self.objectively_down and now - self.failover_start_ms > 2 * self.failover_timeout_ms:
                self.start_failover()
            self._ask_peers()
            return
        {
            "wait-start": self._wait_start,
            "select-slave": self._select,
            "send-slaveof-noone": self._promote,
            "wait-promotion": self._await_promotion,
            "reconf-slaves": self._reconfigure,
            "update-config": self._finish,
        }[self.state]()
        if self.state != "none":
            self._ask_peers()

    def start_failover(self, forced: bool = False) -> None:
        """Start a failover in a new epoch. A ``forced`` one (SENTINEL FAILOVER) needs no election."""
        self._update_epoch(self.saved.current_epoch + 1)
        self.failover_epoch = self.saved.current_epoch
        self.forced = forced
        self.event("+try-failover", self._describe(self.primary))
        self.failover_start_ms = self.now_ms() + self.host.rng.randrange(DESYNC_MS)
        self._enter("wait-start")
        self._ask_peers(force=True)

    def _abort(self, why: str) -> None:
        self.event("-failover-abort-" + why, self._describe(self.primary))
        self._leave_failover()

    def _wait_start(self) -> None:
        leader = self._leader()
        if leader == self.my_id or self.forced:
            self.event("+elected-leader", self._describe(self.primary))
            self._enter("select-slave", self.primary)
        elif self.now_ms() - self.failover_start_ms > min(ELECTION_MS, self.failover_timeout_ms):
            self._abort("not-elected")

    def best_replica(self) -> WatchedInstance | None:
        return best_replica(self.primary, self.replicas.values())

    def _select(self) -> None:
        self.promoted = self.best_replica()
        if self.promoted is None:
            self._abort("no-good-slave")
            return
        self.event("+selected-slave", self._describe(self.promoted))
        self._enter("send-slaveof-noone", self.promoted)

    def _timed_out(self) -> bool:
        if self.now_ms() - self.state_since_ms <= self.failover_timeout_ms:
            return False
        self._abort("slave-timeout")
        return True

    def _promote(self) -> None:
        assert self.promoted is not None
        if self.promoted.up:
            self.promoted.send_replicaof(None)
            self._enter("wait-promotion", self.promoted)
        else:
            self._timed_out()

    def _await_promotion(self) -> None:
        """Check the time-out only; the promoted replica reports its new role in INFO."""
        self._timed_out()

    def _reconfigure(self) -> None:
        """Point the other replicas at the new primary, one at a time."""
        assert self.promoted is not None
        others = [found for found in self.replicas.values() if found is not self.promoted and not found.down]
        late = self.now_ms() - self.state_since_ms > self.failover_timeout_ms
        busy = any(found.reconfigured in ("sent", "inprog") for found in others)
        for found in others:
            if not found.reconfigured and found.up and (late or not busy):
                found.send_replicaof(self.promoted.address)
                found.reconfigured, busy = "sent", True
                self.event("+slave-reconf-sent", self._describe(found))
        if late or all(found.reconfigured == "done" for found in others):
            if late:
                self.event("+failover-end-for-timeout", self._describe(self.primary))
            self.event("+failover-end", self._describe(self.primary))
            self._enter("update-config")

    def _finish(self) -> None:
        assert self.promoted is not None
        self._switch(self.promoted.address)

    def _switch(self, new: Address) -> None:
        old = self.primary.address
        self.event("+switch-master", f"{self.name} {old[0]} {old[1]} {new[0]} {new[1]}")
        replicas = [address for address in self.replicas if address != new]
        for found in [self.primary, *self.replicas.values()]:
            found.hang_up()
        self.saved.primary, self.saved.replicas = new, [*replicas, *([old] if old != new else [])]
        self._watch(self.saved.primary, self.saved.replicas)
        for replica in self.replicas.values():
            self.event("+slave", self._describe(replica))

    # Hello

    def _send_hello(self, at_once: bool = False) -> None:
        now = self.now_ms()
        if not at_once and 0 <= now - self.last_hello_ms < HELLO_MS:
            return
        self.last_hello_ms = now
        host, port = self.current_primary
        words = [str(self.saved.current_epoch), self.name, host, str(port), str(self.saved.config_epoch)]
        for peer in self.peers:
            peer.send(["SENTINEL", "hello", self.host.name, self.my_id, *words])

    def receive_hello(self, host: str, run_id: str, current_epoch: int, primary: Address, config_epoch: int) -> None:
        """Handle a hello message: adopt newer epochs, and the primary of a newer configuration."""
        senders = [peer for peer in self.peers if peer.address[0] == host]
        for peer in senders:
            peer.run_id = run_id
        self._update_epoch(current_epoch)
        if config_epoch > self.saved.config_epoch:
            self.saved.config_epoch = config_epoch
            if primary != self.primary.address:
                for peer in senders:
                    self.event("+config-update-from", self._describe(peer))
                self._switch(primary)

    @property
    def current_primary(self) -> Address:
        """The primary to tell clients; during a failover the promoted replica, once it has taken over."""
        if self.promoted is not None and self.state in ("reconf-slaves", "update-config"):
            return self.promoted.address
        return self.primary.address
