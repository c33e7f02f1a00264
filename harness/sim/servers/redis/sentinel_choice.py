"""Rules of a sentinel failover: votes, the elected leader, and the replica to promote."""

from __future__ import annotations

from collections.abc import Iterable

from .sentinel_link import INFO_MS, PING_MS, Address, WatchedInstance


class SentinelState:
    """The state that a sentinel writes to its configuration file, so that it survives a kill."""

    def __init__(self, primary: Address) -> None:
        self.primary = primary
        self.replicas: list[Address] = []
        self.config_epoch = 0
        self.current_epoch = 0
        self.leader: str | None = None
        self.leader_epoch = 0

    def vote(self, epoch: int, candidate: str) -> bool:
        """Vote for the candidate if it is the first one of a new epoch. Return True if it gets the vote now."""
        if self.leader_epoch >= epoch or self.current_epoch > epoch:
            return False
        self.leader, self.leader_epoch = candidate, self.current_epoch
        return True


def votes_of(peers: Iterable[WatchedInstance], epoch: int) -> dict[str, int]:
    """Count the votes of the other sentinels in this epoch, by candidate."""
    votes: dict[str, int] = {}
    for peer in peers:
        if peer.vote is not None and peer.vote_epoch == epoch:
            votes[peer.vote] = votes.get(peer.vote, 0) + 1
    return votes


def most_voted(votes: dict[str, int]) -> str | None:
    """Return the candidate with the most votes."""
    return max(votes, key=lambda candidate: votes[candidate]) if votes else None


def best_replica(primary: WatchedInstance, replicas: Iterable[WatchedInstance]) -> WatchedInstance | None:
    """Return the replica to promote, or None: the best by priority, replication offset and address.

    Replicas that are silent, down or too far behind are not considered.
    """
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
