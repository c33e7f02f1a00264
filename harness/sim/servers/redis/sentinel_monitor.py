"""The mind of a sentinel: who is down, who leads, who is promoted (sentinel.c of Redis 7.0).

Source: https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/. Abstracted: the other sentinels are
given, not discovered, and hellos go straight to them instead of through the watched servers' pub/sub; votes,
epochs, majorities and all periods are those of the real one. While a primary has no known replica, INFO is asked
for each second, so that a cluster started all at once is watched in full as early as one started in stages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from harness.sim.servers.redis.protocol import Reply
from harness.sim.servers.redis.sentinel_choice import Durable, best_replica, favourite, votes_of
from harness.sim.servers.redis.sentinel_link import INFO_MS, Address, Instance, info_fields, replicas_in
from harness.sim.servers.redis.state import NS_PER_MS
from harness.sim.service import ServiceHost

ASK_MS = 1000
HELLO_MS = 2000
TILT_TRIGGER_MS = 2000
TILT_MS = 30_000
DESYNC_MS = 1000
ELECTION_MS = 10_000
CONVERT_AFTER_MS = 4 * HELLO_MS
OPINION_MS = 5 * ASK_MS


class Monitor:
    def __init__(
        self,
        host: ServiceHost,
        my_id: str,
        kept: Durable,
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
        self.kept = kept
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
        self._watch(kept.primary, kept.replicas)
        self.event("+monitor", f"{self._describe(self.primary)} quorum {quorum}")
        self._tick()

    def now_ms(self) -> int:
        return self.host.wall_ns() // NS_PER_MS

    def _instance(self, kind: str, address: Address) -> Instance:
        return Instance(self.host, self.now_ms, kind, address, self.down_after_ms)

    def _watch(self, primary: Address, replicas: list[Address]) -> None:
        """Begin anew with this configuration."""
        self.primary = self._instance("master", primary)
        self.replicas = {address: self._instance("slave", address) for address in replicas}
        self.objectively_down = False
        self._leave_failover()

    def _leave_failover(self) -> None:
        self.state = "none"
        self.state_since_ms = 0
        self.failover_epoch = 0
        self.promoted: Instance | None = None
        self.forced = False

    def _enter(self, state: str, about: Instance | None = None) -> None:
        """The real one announces a state with what it is about, and two states not at all."""
        self.state, self.state_since_ms = state, self.now_ms()
        if about is not None:
            self.event("+failover-state-" + state, self._describe(about))

    def _describe(self, found: Instance) -> str:
        primary = f"{self.name} {self.primary.address[0]} {self.primary.address[1]}"
        if found.kind == "master":
            return "master " + primary
        return f"{found.kind} {found.name} {found.address[0]} {found.address[1]} @ {primary}"

    # The timer

    def _tick(self) -> None:
        self._check_tilt()
        everybody = [self.primary, *self.replicas.values(), *self.peers]
        for found in everybody:
            found.reconnect()
            found.ping_if_due()
        self._ask_info()
        self._say_hello()
        if not self.tilt_since_ms:
            for found in everybody:
                self._judge(found)
            self._judge_together()
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
        trouble = self.objectively_down or self.state != "none"
        for found in [self.primary, *self.replicas.values()]:
            hurried = found.kind == "slave" and (trouble or found.link_down_ms > 0)
            hurried = hurried or (found.kind == "master" and not self.replicas)
            if found.up and now - found.info_ms > (1000 if hurried else INFO_MS):
                found.info_ms = now
                found.send(["INFO"], partial(self._informed, found))

    # INFO

    def _informed(self, found: Instance, reply: Reply) -> None:
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
            self.kept.replicas = list(self.replicas)
            self.event("+slave", self._describe(self.replicas[address]))

    def _replica_claims_primacy(self, found: Instance) -> None:
        if found is self.promoted and self.state == "wait-promotion":
            self.kept.config_epoch = self.failover_epoch
            self.event("+promoted-slave", self._describe(found))
            self._enter("reconf-slaves", self.primary)
            self._say_hello(at_once=True)
        elif found is not self.promoted and self._settled(found, found.role_since_ms, CONVERT_AFTER_MS):
            found.point(self.primary.address)
            self.event("+convert-to-slave", self._describe(found))

    def _check_follows(self, found: Instance) -> None:
        if found.reconfigured == "sent" and self.promoted and found.follows == self.promoted.address:
            found.reconfigured = "inprog"
            self.event("+slave-reconf-inprog", self._describe(found))
        if found.reconfigured == "inprog" and found.link_up:
            found.reconfigured = "done"
            self.event("+slave-reconf-done", self._describe(found))
        wrong = found.follows != self.primary.address and self.state == "none"
        if wrong and self._settled(found, found.follows_since_ms, self.failover_timeout_ms):
            found.point(self.primary.address)
            self.event("+fix-slave-config", self._describe(found))

    def _settled(self, found: Instance, since_ms: int, wait_ms: int) -> bool:
        """The primary is sane and this one has been up, and like this, for long enough to be corrected."""
        now = self.now_ms()
        sane = self.primary.role == "master" and not self.primary.down and now - self.primary.info_ms < 2 * INFO_MS
        quiet = not found.down and now - found.last_down_ms > wait_ms
        return sane and quiet and now - since_ms > wait_ms

    # Down

    def _judge(self, found: Instance) -> None:
        if found.looks_down():
            found.last_down_ms = self.now_ms()
            if not found.down:
                found.down_since_ms = found.last_down_ms
                self.event("+sdown", self._describe(found))
        elif found.down:
            found.down_since_ms = 0
            self.event("-sdown", self._describe(found))

    def _judge_together(self) -> None:
        now = self.now_ms()
        opinions = sum([peer.says_down and now - peer.said_ms < OPINION_MS for peer in self.peers])
        agreed = self.primary.down and 1 + opinions >= self.quorum
        if agreed != self.objectively_down:
            self.objectively_down = agreed
            extra = f" #quorum {1 + opinions}/{self.quorum}" if agreed else ""
            self.event("+odown" if agreed else "-odown", self._describe(self.primary) + extra)

    def _ask_peers(self, force: bool = False) -> None:
        """Do you see it down too, and (while electing) do I have your vote?"""
        now = self.now_ms()
        candidate = self.my_id if self.state != "none" else "*"
        for peer in self.peers:
            if peer.up and self.primary.down and (force or now - peer.asked_ms >= ASK_MS):
                peer.asked_ms = now
                where = [self.primary.address[0], str(self.primary.address[1])]
                words = ["SENTINEL", "is-master-down-by-addr", *where, str(self.kept.current_epoch), candidate]
                peer.send(words, partial(self._answered, peer))

    def _answered(self, peer: Instance, reply: Reply) -> None:
        if not isinstance(reply, list) or len(reply) != 3:
            return
        down, leader, epoch = reply
        peer.says_down, peer.said_ms = down == 1, self.now_ms()
        if isinstance(leader, bytes) and leader != b"*" and isinstance(epoch, int):
            if epoch != peer.vote_epoch:
                self.host.log(f"{peer.name} voted for {leader.decode()} {epoch}")
            peer.vote, peer.vote_epoch = leader.decode(), epoch

    def is_down(self, address: Address) -> bool:
        """Asked by a fellow sentinel."""
        return not self.tilt_since_ms and address == self.primary.address and self.primary.down

    def _see_epoch(self, epoch: int) -> None:
        if epoch > self.kept.current_epoch:
            self.kept.current_epoch = epoch
            self.event("+new-epoch", str(epoch))

    def vote(self, epoch: int, candidate: str) -> tuple[str | None, int]:
        """The first candidate of a new epoch gets this sentinel's vote, and keeps it."""
        kept = self.kept
        self._see_epoch(epoch)
        if kept.vote(epoch, candidate):
            self.event("+vote-for-leader", f"{candidate} {kept.leader_epoch}")
            if candidate != self.my_id:
                self.failover_start_ms = self.now_ms() + self.host.rng.randrange(DESYNC_MS)
        return kept.leader, kept.leader_epoch

    def _leader(self) -> str | None:
        """Who has an absolute majority of all sentinels, and the quorum, in this epoch."""
        votes = votes_of(self.peers, self.kept.current_epoch)
        mine, epoch = self.vote(self.failover_epoch, favourite(votes) or self.my_id)
        if mine is not None and epoch == self.failover_epoch:
            votes[mine] = votes.get(mine, 0) + 1
        winner = favourite(votes)
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
        self._see_epoch(self.kept.current_epoch + 1)
        self.failover_epoch = self.kept.current_epoch
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

    def best_replica(self) -> Instance | None:
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
            self.promoted.point(None)
            self._enter("wait-promotion", self.promoted)
        else:
            self._timed_out()

    def _await_promotion(self) -> None:
        """The answer comes with INFO."""
        self._timed_out()

    def _reconfigure(self) -> None:
        """Point the other replicas at the new primary, one at a time."""
        assert self.promoted is not None
        others = [found for found in self.replicas.values() if found is not self.promoted and not found.down]
        late = self.now_ms() - self.state_since_ms > self.failover_timeout_ms
        busy = any(found.reconfigured in ("sent", "inprog") for found in others)
        for found in others:
            if not found.reconfigured and found.up and (late or not busy):
                found.point(self.promoted.address)
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
        self.kept.primary, self.kept.replicas = new, [*replicas, *([old] if old != new else [])]
        self._watch(self.kept.primary, self.kept.replicas)
        for replica in self.replicas.values():
            self.event("+slave", self._describe(replica))

    # Hello

    def _say_hello(self, at_once: bool = False) -> None:
        now = self.now_ms()
        if not at_once and 0 <= now - self.last_hello_ms < HELLO_MS:
            return
        self.last_hello_ms = now
        host, port = self.current_primary
        words = [str(self.kept.current_epoch), self.name, host, str(port), str(self.kept.config_epoch)]
        for peer in self.peers:
            peer.send(["SENTINEL", "hello", self.host.name, self.my_id, *words])

    def hear_hello(self, host: str, run_id: str, current_epoch: int, primary: Address, config_epoch: int) -> None:
        senders = [peer for peer in self.peers if peer.address[0] == host]
        for peer in senders:
            peer.run_id = run_id
        self._see_epoch(current_epoch)
        if config_epoch > self.kept.config_epoch:
            self.kept.config_epoch = config_epoch
            if primary != self.primary.address:
                for peer in senders:
                    self.event("+config-update-from", self._describe(peer))
                self._switch(primary)

    @property
    def current_primary(self) -> Address:
        """The one to tell clients: during a failover, the promoted replica once it has taken over."""
        if self.promoted is not None and self.state in ("reconf-slaves", "update-config"):
            return self.promoted.address
        return self.primary.address
