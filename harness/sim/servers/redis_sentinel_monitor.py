"""The mind of a sentinel: who is down, who leads, who is promoted (sentinel.c of Redis 7.0).

Source: https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/. Abstracted: the other sentinels are
given, not discovered, and hellos go straight to them instead of through the watched servers' pub/sub; votes,
epochs, majorities and all periods are those of the real one. While a primary has no known replica, INFO is asked
for each second, so that a cluster started all at once is watched in full as early as one started in stages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from harness.sim.servers.redis_engine import NS_PER_MS
from harness.sim.servers.redis_protocol import Reply
from harness.sim.servers.redis_sentinel_link import INFO_MS, PING_MS, Address, Instance, info_fields, replicas_in
from harness.sim.service import ServiceHost

ASK_MS = 1000
HELLO_MS = 2000
TILT_TRIGGER_MS = 2000
TILT_MS = 30_000
DESYNC_MS = 1000
ELECTION_MS = 10_000
CONVERT_AFTER_MS = 4 * HELLO_MS
OPINION_MS = 5 * ASK_MS


class Durable:
    """What a sentinel writes to its file: it survives a kill."""

    def __init__(self, primary: Address) -> None:
        self.primary = primary
        self.replicas: list[Address] = []
        self.config_epoch = 0
        self.current_epoch = 0
        self.leader: str | None = None
        self.leader_epoch = 0


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

    def _enter(self, state: str) -> None:
        self.state, self.state_since_ms = state, self.now_ms()
        self.event("+failover-state-" + state, self._describe(self.primary))

    def _describe(self, found: Instance) -> str:
        text = f"{found.kind} {found.address[0]} {found.address[0]} {found.address[1]}"
        if found.kind == "master":
            return f"master {self.name} {found.address[0]} {found.address[1]}"
        return f"{text} @ {self.name} {self.primary.address[0]} {self.primary.address[1]}"

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
        found.learn(fields)
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
            self._enter("reconf-slaves")
            self._say_hello(at_once=True)
        elif found is not self.promoted and self._settled(found, found.role_since_ms, CONVERT_AFTER_MS):
            self._point(found, self.primary.address)
            self.event("+convert-to-slave", self._describe(found))

    def _check_follows(self, found: Instance) -> None:
        if found.reconfigured == "sent" and self.promoted and found.follows == self.promoted.address:
            found.reconfigured = "inprog"
        if found.reconfigured == "inprog" and found.link_up:
            found.reconfigured = "done"
        wrong = found.follows != self.primary.address and self.state == "none"
        if wrong and self._settled(found, found.follows_since_ms, self.failover_timeout_ms):
            self._point(found, self.primary.address)
            self.event("+fix-slave-config", self._describe(found))

    def _settled(self, found: Instance, since_ms: int, wait_ms: int) -> bool:
        """The primary is sane and this one has been up, and like this, for long enough to be corrected."""
        now = self.now_ms()
        sane = self.primary.role == "master" and not self.primary.down and now - self.primary.info_ms < 2 * INFO_MS
        quiet = not found.down and now - found.last_down_ms > wait_ms
        return sane and quiet and now - since_ms > wait_ms

    def _point(self, found: Instance, at: Address | None) -> None:
        target = ["NO", "ONE"] if at is None else [at[0], str(at[1])]
        for words in (
            ["MULTI"],
            ["SLAVEOF", *target],
            ["CONFIG", "REWRITE"],
            ["CLIENT", "KILL", "TYPE", "normal"],
            ["CLIENT", "KILL", "TYPE", "pubsub"],
            ["EXEC"],
        ):
            found.send(words)

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
            peer.vote, peer.vote_epoch = leader.decode(), epoch

    def is_down(self, address: Address) -> bool:
        """Asked by a fellow sentinel."""
        return not self.tilt_since_ms and address == self.primary.address and self.primary.down

    def vote(self, epoch: int, candidate: str) -> tuple[str | None, int]:
        """The first candidate of a new epoch gets this sentinel's vote, and keeps it."""
        kept = self.kept
        kept.current_epoch = max(kept.current_epoch, epoch)
        if kept.leader_epoch < epoch and kept.current_epoch <= epoch:
            kept.leader, kept.leader_epoch = candidate, kept.current_epoch
            self.event("+vote-for-leader", f"{candidate} {kept.leader_epoch}")
            if candidate != self.my_id:
                self.failover_start_ms = self.now_ms() + self.host.rng.randrange(DESYNC_MS)
        return kept.leader, kept.leader_epoch

    def _leader(self) -> str | None:
        """Who has an absolute majority of all sentinels, and the quorum, in this epoch."""
        votes: dict[str, int] = {}
        for peer in self.peers:
            if peer.vote is not None and peer.vote_epoch == self.kept.current_epoch:
                votes[peer.vote] = votes.get(peer.vote, 0) + 1
        favourite = max(votes, key=lambda who: votes[who]) if votes else self.my_id
        mine, epoch = self.vote(self.failover_epoch, favourite)
        if mine is not None and epoch == self.failover_epoch:
            votes[mine] = votes.get(mine, 0) + 1
        winner = max(votes, key=lambda who: votes[who]) if votes else None
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
        self.kept.current_epoch += 1
        self.failover_epoch = self.kept.current_epoch
        self.forced = forced
        self.event("+new-epoch", str(self.failover_epoch))
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
            self._enter("select-slave")
        elif self.now_ms() - self.failover_start_ms > min(ELECTION_MS, self.failover_timeout_ms):
            self._abort("not-elected")

    def _select(self) -> None:
        self.promoted = self.best_replica()
        if self.promoted is None:
            self._abort("no-good-slave")
            return
        self.event("+selected-slave", self._describe(self.promoted))
        self._enter("send-slaveof-noone")

    def best_replica(self) -> Instance | None:
        """By priority, replication offset, name; none that is silent, down, or too far behind."""
        now = self.now_ms()
        fresh_ms = 5 * PING_MS if self.primary.down else 3 * INFO_MS
        behind_ms = 10 * self.down_after_ms + (now - self.primary.down_since_ms if self.primary.down else 0)
        good = [
            found
            for found in self.replicas.values()
            if found.up and not found.down and found.priority and now - found.last_answer_ms <= 5 * PING_MS
            if now - found.info_ms <= fresh_ms and found.link_down_ms <= behind_ms
        ]
        return min(good, key=lambda found: (found.priority, -found.offset, found.address), default=None)

    def _timed_out(self) -> bool:
        if self.now_ms() - self.state_since_ms <= self.failover_timeout_ms:
            return False
        self._abort("slave-timeout")
        return True

    def _promote(self) -> None:
        assert self.promoted is not None
        if self.promoted.up:
            self._point(self.promoted, None)
            self._enter("wait-promotion")
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
                self._point(found, self.promoted.address)
                found.reconfigured, busy = "sent", True
                self.event("+slave-reconf-sent", self._describe(found))
        if late or all(found.reconfigured == "done" for found in others):
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

    # Hello

    def _say_hello(self, at_once: bool = False) -> None:
        now = self.now_ms()
        if not at_once and 0 <= now - self.last_hello_ms < HELLO_MS:
            return
        self.last_hello_ms = now
        host, port = self.current_primary
        words = [str(self.kept.current_epoch), self.name, host, str(port), str(self.kept.config_epoch)]
        for peer in self.peers:
            peer.send(["SENTINEL", "hello", self.my_id, *words])

    def hear_hello(self, current_epoch: int, primary: Address, config_epoch: int) -> None:
        kept = self.kept
        kept.current_epoch = max(kept.current_epoch, current_epoch)
        if config_epoch > kept.config_epoch:
            kept.config_epoch = config_epoch
            if primary != self.primary.address:
                self._switch(primary)

    @property
    def current_primary(self) -> Address:
        """The one to tell clients: during a failover, the promoted replica once it has taken over."""
        if self.promoted is not None and self.state in ("reconf-slaves", "update-config"):
            return self.promoted.address
        return self.primary.address
