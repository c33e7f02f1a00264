"""Raft consensus between simulated etcd members (https://raft.github.io/raft.pdf), configured as etcd 3.4 does.

Simulated: terms, votes, the log and its commitment by a majority; election time-outs drawn anew from one to two
times ``election_ms``. ``CheckQuorum``: a leader that has not heard from a majority for an election time-out steps down,
and a member that hears a leader votes for no other. ``ReadIndex``: a read is served at an index that the leader has
confirmed with a majority. Pre-vote is off, as in 3.4, so a member that returns from a partition ends the leader's term.

Abstracted: the log is never truncated, so a member that is far behind gets entries where etcd sends a snapshot; the
membership never changes. An operator of etcd removes a member that has lost its disk and adds it again. Here such a
member returns without a vote until a leader has sent it everything committed at its return: it may have voted for, and
stored, what it has lost. If a majority is in that state, the cluster is lost, as a real one is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from harness.sim.kernel import MILLISECOND
from harness.sim.service import ServiceHost, Timer

FOLLOWER, CANDIDATE, LEADER = "follower", "candidate", "leader"
MAX_ENTRIES_PER_MESSAGE: Final = 500
OnIndex = Callable[[int], None]
"""Called with a log index."""


class RaftEntry(NamedTuple):
    """One entry of the replicated log."""

    term: int
    method: str
    """The operation to apply; empty for the entry with which a leader begins its term."""
    data: bytes
    """The serialized request."""
    origin: str
    """The member that proposed the entry."""
    number: int
    """The proposer's number for the request."""


@dataclass(slots=True)
class RaftDisk:
    """One member's durable state: it survives a kill."""

    term: int = 0
    vote: str = ""
    log: list[RaftEntry] = field(default_factory=list)
    commit: int = 0
    applied: int = 0
    can_vote: bool = True
    """False for a member that has lost its disk and has not caught up yet."""


class RaftNode(Protocol):
    """Callbacks from Raft to the member it belongs to."""

    def send(self, peer: str, message: dict[str, Any]) -> None: ...

    def apply(self, entry: RaftEntry) -> None: ...

    def role_changed(self) -> None: ...


class Raft:
    """The Raft state machine of one member. The log's first entry has index 1."""

    def __init__(self, name: str, peers: list[str], node: RaftNode, heartbeat_ms: int, election_ms: int) -> None:
        self.name = name
        self.peers = peers
        self.disk = RaftDisk()
        self.role = FOLLOWER
        self.leader: str | None = None
        self._node = node
        self._tick_ns = heartbeat_ms * MILLISECOND
        self._election_ticks = max(1, election_ms // heartbeat_ms)
        self._host: ServiceHost | None = None
        self._reset_memory()

    def _reset_memory(self) -> None:
        """Reset everything that is not on disk."""
        self.role, self.leader = FOLLOWER, None
        self._timer: Timer | None = None
        self._elapsed = 0
        self._ticks_since_check = 0
        self._timeout_ticks = self._election_ticks
        self._votes: set[str] = set()
        self._next: dict[str, int] = {}
        self._match: dict[str, int] = {}
        self._nonvoters: dict[str, int | None] = {}
        """Members without a vote, and the index that each must reach to regain it (None until known)."""
        self._active: set[str] = set()
        self._reads: dict[int, tuple[int, set[str], OnIndex]] = {}
        self._index_requests: dict[int, OnIndex] = {}
        self._read_number = 0

    def start(self, host: ServiceHost, *, first_after: int | None) -> None:
        """Begin to tick. ``first_after``: ticks until a member of a new cluster starts the first election; None for
        the usual random time-out."""
        self._host = host
        self._reset_memory()
        self._restart_election_timer(first_after)
        self._timer = host.call_later(host.rng.randrange(self._tick_ns), self._tick)

    def stop(self) -> None:
        self._reset_memory()
        self._host = None

    # Time.

    def _tick(self) -> None:
        assert self._host is not None
        self._timer = self._host.call_later(self._tick_ns, self._tick)
        self._elapsed += 1
        if self.role == LEADER:
            self._ticks_since_check += 1
            if self._ticks_since_check >= self._election_ticks:
                self._ticks_since_check = 0
                alive = self._is_majority(self._active | {self.name})
                self._active = set()
                if not alive:
                    self._become_follower(self.disk.term, None)
                    return
            self._send_heartbeats()
        elif self._elapsed >= self._timeout_ticks and self.disk.can_vote:
            self._campaign()

    def _restart_election_timer(self, ticks: int | None = None) -> None:
        assert self._host is not None
        self._elapsed = 0
        self._timeout_ticks = (
            self._election_ticks + self._host.rng.randrange(self._election_ticks) if ticks is None else ticks
        )

    def _is_majority(self, members: set[str]) -> bool:
        return 2 * len(members) > len(self.peers) + 1

    # Roles.

    def _become_follower(self, term: int, leader: str | None) -> None:
        changed = self.role != FOLLOWER or self.leader != leader
        if term > self.disk.term:
            self.disk.term, self.disk.vote = term, ""
        self.role, self.leader = FOLLOWER, leader
        self._restart_election_timer()
        if changed:
            self._role_changed()

    def _role_changed(self) -> None:
        """Drop the reads that wait for a leader's confirmation (the member repeats them), and notify the member."""
        self._reads.clear()
        self._index_requests.clear()
        self._node.role_changed()

    def _campaign(self) -> None:
        disk = self.disk
        had_leader = self.leader is not None
        self.role, self.leader = CANDIDATE, None
        disk.term, disk.vote = disk.term + 1, self.name
        self._votes = {self.name}
        self._restart_election_timer()
        if had_leader:
            self._role_changed()
        if self._is_majority(self._votes):
            self._become_leader()
            return
        for peer in self.peers:
            self._send(peer, "vote?", last=len(disk.log), last_term=self._term_at(len(disk.log)))

    def _become_leader(self) -> None:
        self.role, self.leader = LEADER, self.name
        self._elapsed = self._ticks_since_check = 0
        self._active = set()
        self._nonvoters = {}
        self._next = {peer: len(self.disk.log) + 1 for peer in self.peers}
        self._match = dict.fromkeys(self.peers, 0)
        self.disk.log.append(RaftEntry(self.disk.term, "", b"", "", 0))
        self._role_changed()
        self._replicate()

    # Messages.

    def _send(self, peer: str, kind: str, **fields: Any) -> None:
        self._node.send(peer, {"kind": kind, "term": self.disk.term, **fields})

    def received(self, peer: str, message: dict[str, Any]) -> None:
        kind, term = message["kind"], message["term"]
        hears = self.role == LEADER or (self.leader is not None and self._elapsed < self._election_ticks)
        if kind == "vote?" and hears:
            return
        if term > self.disk.term:
            self._become_follower(term, peer if kind in ("append", "beat") else None)
        elif term < self.disk.term:
            if kind in ("append", "beat"):  # tells a deposed leader about the new term, as CheckQuorum requires
                self._send(peer, "newer")
            return
        if self.role == LEADER and peer not in self._nonvoters:
            self._active.add(peer)
        handler: Callable[[str, dict[str, Any]], None] = getattr(self, "_on_" + _HANDLERS[kind])
        handler(peer, message)

    def _on_newer_term(self, _peer: str, _message: dict[str, Any]) -> None:
        """Do nothing: :meth:`received` has already adopted the newer term."""

    def _on_vote_request(self, peer: str, message: dict[str, Any]) -> None:
        disk = self.disk
        up_to_date = (message["last_term"], message["last"]) >= (self._term_at(len(disk.log)), len(disk.log))
        granted = disk.can_vote and disk.vote in ("", peer) and self.leader is None and up_to_date
        if granted:
            disk.vote = peer
            self._elapsed = 0
        self._send(peer, "vote", granted=granted)

    def _on_vote(self, peer: str, message: dict[str, Any]) -> None:
        if self.role == CANDIDATE and message["granted"]:
            self._votes.add(peer)
            if self._is_majority(self._votes):
                self._become_leader()

    def _follow(self, peer: str) -> None:
        self._elapsed = 0
        if self.leader != peer or self.role != FOLLOWER:
            self._become_follower(self.disk.term, peer)

    def _on_append(self, peer: str, message: dict[str, Any]) -> None:
        self._follow(peer)
        disk, before, entries = self.disk, message["before"], message["entries"]
        if before > len(disk.log) or self._term_at(before) != message["before_term"]:
            hint = min(before - 1, len(disk.log))
            self._send(peer, "appended", ok=False, match=hint, votes=disk.can_vote)
            return
        for index, fields in enumerate(entries, before + 1):
            entry = RaftEntry(*fields)
            if index > len(disk.log) or disk.log[index - 1].term != entry.term:
                del disk.log[index - 1 :]
                disk.log.append(entry)
        match = before + len(entries)
        if message["full"] is not None and match >= message["full"]:
            disk.can_vote = True
        self._commit(min(message["commit"], match))
        self._send(peer, "appended", ok=True, match=match, votes=disk.can_vote)

    def _on_appended(self, peer: str, message: dict[str, Any]) -> None:
        if self.role != LEADER:
            return
        self._note_can_vote(peer, message["votes"])
        if not message["ok"]:
            self._next[peer] = min(self._next[peer], message["match"] + 1) or 1
            self._append_to(peer)
            return
        self._match[peer] = max(self._match[peer], message["match"])
        self._next[peer] = max(self._next[peer], self._match[peer] + 1)
        if self._advance():
            self._replicate()
        elif self._next[peer] <= len(self.disk.log):
            self._append_to(peer)

    def _on_heartbeat(self, peer: str, message: dict[str, Any]) -> None:
        self._follow(peer)
        self._commit(min(message["commit"], len(self.disk.log)))
        self._send(peer, "beaten", read=message["read"], votes=self.disk.can_vote)

    def _on_heartbeat_reply(self, peer: str, message: dict[str, Any]) -> None:
        if self.role != LEADER:
            return
        self._note_can_vote(peer, message["votes"])
        if self._match[peer] < len(self.disk.log):
            self._append_to(peer)
        if peer in self._nonvoters:
            return
        for number in [number for number in self._reads if number <= message["read"]]:
            index, acks, done = self._reads[number]
            acks.add(peer)
            if self._is_majority(acks):
                del self._reads[number]
                done(index)

    def _note_can_vote(self, peer: str, votes: bool) -> None:
        if votes:
            self._nonvoters.pop(peer, None)
            return
        if peer not in self._nonvoters:
            self._nonvoters[peer] = None
            self._match[peer] = 0
        if self._nonvoters[peer] is None:  # the leader's log is only complete if a majority still follows it
            self._confirm_leadership(lambda index: self._set_catch_up_index(peer, index))

    def _set_catch_up_index(self, peer: str, index: int) -> None:
        if peer in self._nonvoters:
            self._nonvoters[peer] = index

    # The log.

    def _term_at(self, index: int) -> int:
        return self.disk.log[index - 1].term if index else 0

    def _replicate(self) -> None:
        for peer in self.peers:
            self._append_to(peer)
        self._advance()

    def _append_to(self, peer: str) -> None:
        disk, first = self.disk, self._next[peer]
        entries = disk.log[first - 1 : first - 1 + MAX_ENTRIES_PER_MESSAGE]
        self._send(
            peer, "append", before=first - 1, before_term=self._term_at(first - 1),
            entries=[tuple(entry) for entry in entries], commit=disk.commit, full=self._nonvoters.get(peer),
        )  # fmt: skip
        self._next[peer] = first + len(entries)

    def _has_committed_in_term(self) -> bool:
        """Return True once the leader has committed an entry of its term, and with it all entries before."""
        return self._term_at(self.disk.commit) == self.disk.term

    def _send_heartbeats(self) -> None:
        for peer in self.peers:
            self._next[peer] = self._match[peer] + 1 if self._match[peer] < len(self.disk.log) else self._next[peer]
            self._send(peer, "beat", commit=min(self.disk.commit, self._match[peer]), read=self._read_number)

    def _advance(self) -> bool:
        """Commit up to the last index that a majority has, if its entry is of the current term; True if it moved."""
        voting = [0 if peer in self._nonvoters else match for peer, match in self._match.items()]
        matches = sorted([len(self.disk.log), *voting])
        index = matches[(len(matches) - 1) // 2]
        if index > self.disk.commit and self._term_at(index) == self.disk.term:
            self._commit(index)
            return True
        return False

    def _commit(self, index: int) -> None:
        disk = self.disk
        disk.commit = max(disk.commit, index)
        while disk.applied < disk.commit:
            disk.applied += 1
            self._node.apply(disk.log[disk.applied - 1])

    # Called by the member.

    def propose(self, entry: RaftEntry) -> bool:
        """Append an entry to the leader's log, or send it to the leader; False if no leader is known."""
        if self.role == LEADER:
            self.disk.log.append(entry._replace(term=self.disk.term))
            self._replicate()
        elif self.leader is not None:
            self._send(self.leader, "propose", entry=tuple(entry))
        else:
            return False
        return True

    def _on_propose(self, _peer: str, message: dict[str, Any]) -> None:
        if self.role == LEADER:
            self.propose(RaftEntry(*message["entry"]))

    def read_index(self, done: OnIndex) -> None:
        """Call ``done`` with the index that must be applied before a linearizable read. ``done`` may never be called,
        because messages are lost and leaders change."""
        if self.role == LEADER:
            self._confirm_leadership(done)
        elif self.leader is not None:
            self._read_number += 1
            self._index_requests[self._read_number] = done
            self._send(self.leader, "index?", read=self._read_number)

    def _confirm_leadership(self, done: OnIndex) -> None:
        if not self._has_committed_in_term():
            return  # as etcd: dropped until the leader has committed in its term; the requester repeats it
        if not self.peers:
            done(self.disk.commit)
            return
        self._read_number += 1
        self._reads[self._read_number] = (self.disk.commit, {self.name}, done)
        for peer in self.peers:
            self._send(peer, "beat", commit=min(self.disk.commit, self._match[peer]), read=self._read_number)

    def _on_index_request(self, peer: str, message: dict[str, Any]) -> None:
        number, term = message["read"], self.disk.term

        def confirmed(index: int) -> None:
            if self.disk.term == term:
                self._send(peer, "index", read=number, index=index)

        if self.role == LEADER:
            self._confirm_leadership(confirmed)

    def _on_index(self, _peer: str, message: dict[str, Any]) -> None:
        done = self._index_requests.pop(message["read"], None)
        if done is not None:
            done(message["index"])


_HANDLERS: Final = {
    "vote?": "vote_request", "vote": "vote", "append": "append", "appended": "appended", "beat": "heartbeat",
    "beaten": "heartbeat_reply", "newer": "newer_term", "propose": "propose", "index?": "index_request",
    "index": "index",
}  # fmt: skip
