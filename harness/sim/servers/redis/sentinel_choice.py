"""The choices of a failover: whom a sentinel votes for, who has been elected, which replica is promoted."""

from __future__ import annotations

from collections.abc import Iterable

from harness.sim.servers.redis.sentinel_link import INFO_MS, PING_MS, Address, Instance


class Durable:
    """What a sentinel writes to its file: it survives a kill."""

    def __init__(self, primary: Address) -> None:
        self.primary = primary
        self.replicas: list[Address] = []
        self.config_epoch = 0
        self.current_epoch = 0
        self.leader: str | None = None
        self.leader_epoch = 0

    def vote(self, epoch: int, candidate: str) -> bool:
        """Whether the candidate gets the vote just now; the first of a new epoch does."""
        if self.leader_epoch >= epoch or self.current_epoch > epoch:
            return False
        self.leader, self.leader_epoch = candidate, self.current_epoch
        return True


def votes_of(peers: Iterable[Instance], epoch: int) -> dict[str, int]:
    votes: dict[str, int] = {}
    for peer in peers:
        if peer.vote is not None and peer.vote_epoch == epoch:
            votes[peer.vote] = votes.get(peer.vote, 0) + 1
    return votes


def favourite(votes: dict[str, int]) -> str | None:
    """The candidate with the most votes."""
    return max(votes, key=lambda who: votes[who]) if votes else None


def best_replica(primary: Instance, replicas: Iterable[Instance]) -> Instance | None:
    """By priority, replication offset, name; none that is silent, down, or too far behind."""
    now = primary.now_ms()
    fresh_ms = 5 * PING_MS if primary.down else 3 * INFO_MS
    behind_ms = 10 * primary.down_after_ms + (now - primary.down_since_ms if primary.down else 0)
    good = [
        found
        for found in replicas
        if found.up and not found.down and found.priority and now - found.last_answer_ms <= 5 * PING_MS
        if now - found.info_ms <= fresh_ms and found.link_down_ms <= behind_ms
    ]
    return min(good, key=lambda found: (found.priority, -found.offset, found.address), default=None)
