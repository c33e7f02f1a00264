"""Consensus between simulated etcd members: Raft (https://raft.github.io/raft.pdf) as etcd sets it up.

What is kept: terms, votes, the log and its commitment by a majority; election time-outs drawn anew from one to two
times ``election_ms``; a leader that has not heard a majority for an election time-out steps down, and members that hear
a leader give nobody else their vote (``CheckQuorum``); reads at an index the leader has confirmed with a majority
(``ReadIndex``). No pre-vote: it is off in 3.4, so a member that comes back from a partition ends the leader's term.

Abstracted: the log is kept whole, so a member that lacks much gets entries where etcd sends a snapshot; no changes of
membership. In place of removing and adding a member that has lost its disk, it comes back as one that does not vote
until a leader has given it all that was committed when it came: it may have voted for, and stored, what is lost. A
majority of such members is a lost cluster, as with the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from ...kernel import MILLISECOND
from ...service import ServiceHost, Timer

FOLLOWER, CANDIDATE, LEADER = "follower", "candidate", "leader"
BATCH: Final = 500
"""Entries in one message."""
Done = Callable[[int], None]


class Entry(NamedTuple):
    term: int
    method: str
    """What to apply; empty for the entry with which a leader begins its term."""
    data: bytes
    origin: str
    number: int
    """The member that proposed it, and its number there."""


@dataclass(slots=True)
class Disk:
    """What survives a kill."""

    term: int = 0
    vote: str = ""
    log: list[Entry] = field(default_factory=list)
    commit: int = 0
    applied: int = 0
    votes: bool = True
    """False for a member that has lost its disk and has not been given all again."""


class Node(Protocol):
    """What Raft asks of the member it belongs to."""

    def send(self, peer: str, message: dict[str, Any]) -> None: ...

    def apply(self, entry: Entry) -> None: ...

    def role_changed(self) -> None: ...


class Raft:
    """One member's part. The log's first entry has index 1."""

    def __init__(self, name: str, peers: list[str], node: Node, heartbeat_ms: int, election_ms: int) -> None:
        self.name = name
        self.peers = peers
        self.disk = Disk()
        self.role = FOLLOWER
        self.leader: str | None = None
        self._node = node
        self._tick_ns = heartbeat_ms * MILLISECOND
        self._election_ticks = max(1, election_ms // heartbeat_ms)
        self._host: ServiceHost | None = None
        self._forget()

    def _forget(self) -> None:
        """All that is only in memory."""
        self.role, self.leader = FOLLOWER, None
        self._timer: Timer | None = None
        self._elapsed = 0
        self._since_check = 0
        self._limit = self._election_ticks
        self._votes: set[str] = set()
        self._next: dict[str, int] = {}
        self._match: dict[str, int] = {}
        self._blank: dict[str, int | None] = {}
        """Members that do not vote, and the index that they have to reach, once that is known."""
        self._heard: set[str] = set()
        self._reads: dict[int, tuple[int, set[str], Done]] = {}
        self._asked: dict[int, Done] = {}
        self._read_number = 0

    def start(self, host: ServiceHost, *, first_after: int | None) -> None:
        """``first_after``: ticks after which a member of a new cluster stands for its first election."""
        self._host = host
        self._forget()
        self._reset(first_after)
        self._timer = host.call_later(host.rng.randrange(self._tick_ns), self._tick)

    def stop(self) -> None:
        self._forget()
        self._host = None

    # Time.

    def _tick(self) -> None:
        assert self._host is not None
        self._timer = self._host.call_later(self._tick_ns, self._tick)
        self._elapsed += 1
        if self.role == LEADER:
            self._since_check += 1
            if self._since_check >= self._election_ticks:
                self._since_check = 0
                alive = self._is_majority(self._heard | {self.name})
                self._heard = set()
                if not alive:
                    self._become_follower(self.disk.term, None)
                    return
            self._beat()
        elif self._elapsed >= self._limit and self.disk.votes:
            self._campaign()

    def _reset(self, ticks: int | None = None) -> None:
        assert self._host is not None
        self._elapsed = 0
        self._limit = self._election_ticks + self._host.rng.randrange(self._election_ticks) if ticks is None else ticks

    def _is_majority(self, members: set[str]) -> bool:
        return 2 * len(members) > len(self.peers) + 1

    # Roles.

    def _become_follower(self, term: int, leader: str | None) -> None:
        changed = self.role != FOLLOWER or self.leader != leader
        if term > self.disk.term:
            self.disk.term, self.disk.vote = term, ""
        self.role, self.leader = FOLLOWER, leader
        self._reset()
        if changed:
            self._changed()

    def _changed(self) -> None:
        """Reads that wait for a leader's word are dropped: who wants them asks again."""
        self._reads.clear()
        self._asked.clear()
        self._node.role_changed()

    def _campaign(self) -> None:
        disk = self.disk
        had_leader = self.leader is not None
        self.role, self.leader = CANDIDATE, None
        disk.term, disk.vote = disk.term + 1, self.name
        self._votes = {self.name}
        self._reset()
        if had_leader:
            self._changed()
        if self._is_majority(self._votes):
            self._become_leader()
            return
        for peer in self.peers:
            self._send(peer, "vote?", last=len(disk.log), last_term=self._term_at(len(disk.log)))

    def _become_leader(self) -> None:
        self.role, self.leader = LEADER, self.name
        self._elapsed = self._since_check = 0
        self._heard = set()
        self._blank = {}
        self._next = {peer: len(self.disk.log) + 1 for peer in self.peers}
        self._match = dict.fromkeys(self.peers, 0)
        self.disk.log.append(Entry(self.disk.term, "", b"", "", 0))
        self._changed()
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
            if kind in ("append", "beat"):  # lets an old leader know, as CheckQuorum needs it
                self._send(peer, "newer")
            return
        if self.role == LEADER and peer not in self._blank:
            self._heard.add(peer)
        handler: Callable[[str, dict[str, Any]], None] = getattr(self, "_on_" + _HANDLERS[kind])
        handler(peer, message)

    def _on_newer(self, _peer: str, _message: dict[str, Any]) -> None:
        """The term has done it."""

    def _on_vote_asked(self, peer: str, message: dict[str, Any]) -> None:
        disk = self.disk
        up_to_date = (message["last_term"], message["last"]) >= (self._term_at(len(disk.log)), len(disk.log))
        granted = disk.votes and disk.vote in ("", peer) and self.leader is None and up_to_date
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
            self._send(peer, "appended", ok=False, match=hint, votes=disk.votes)
            return
        for index, fields in enumerate(entries, before + 1):
            entry = Entry(*fields)
            if index > len(disk.log) or disk.log[index - 1].term != entry.term:
                del disk.log[index - 1 :]
                disk.log.append(entry)
        match = before + len(entries)
        if message["full"] is not None and match >= message["full"]:
            disk.votes = True
        self._commit(min(message["commit"], match))
        self._send(peer, "appended", ok=True, match=match, votes=disk.votes)

    def _on_appended(self, peer: str, message: dict[str, Any]) -> None:
        if self.role != LEADER:
            return
        self._note_blank(peer, message["votes"])
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

    def _on_beat(self, peer: str, message: dict[str, Any]) -> None:
        self._follow(peer)
        self._commit(min(message["commit"], len(self.disk.log)))
        self._send(peer, "beaten", read=message["read"], votes=self.disk.votes)

    def _on_beaten(self, peer: str, message: dict[str, Any]) -> None:
        if self.role != LEADER:
            return
        self._note_blank(peer, message["votes"])
        if self._match[peer] < len(self.disk.log):
            self._append_to(peer)
        if peer in self._blank:
            return
        for number in [number for number in self._reads if number <= message["read"]]:
            index, acks, done = self._reads[number]
            acks.add(peer)
            if self._is_majority(acks):
                del self._reads[number]
                done(index)

    def _note_blank(self, peer: str, votes: bool) -> None:
        if votes:
            self._blank.pop(peer, None)
            return
        if peer not in self._blank:
            self._blank[peer] = None
            self._match[peer] = 0
        if self._blank[peer] is None:  # a majority without it says that this is still the leader: its log is all
            self._confirm(lambda index: self._owes(peer, index))

    def _owes(self, peer: str, index: int) -> None:
        if peer in self._blank:
            self._blank[peer] = index

    # The log.

    def _term_at(self, index: int) -> int:
        return self.disk.log[index - 1].term if index else 0

    def _replicate(self) -> None:
        for peer in self.peers:
            self._append_to(peer)
        self._advance()

    def _append_to(self, peer: str) -> None:
        disk, first = self.disk, self._next[peer]
        entries = disk.log[first - 1 : first - 1 + BATCH]
        self._send(
            peer, "append", before=first - 1, before_term=self._term_at(first - 1),
            entries=[tuple(entry) for entry in entries], commit=disk.commit, full=self._blank.get(peer),
        )  # fmt: skip
        self._next[peer] = first + len(entries)

    def _own_term(self) -> bool:
        """Has the leader committed something of its own term, and so all that was committed before?"""
        return self._term_at(self.disk.commit) == self.disk.term

    def _beat(self) -> None:
        for peer in self.peers:
            self._next[peer] = self._match[peer] + 1 if self._match[peer] < len(self.disk.log) else self._next[peer]
            self._send(peer, "beat", commit=min(self.disk.commit, self._match[peer]), read=self._read_number)

    def _advance(self) -> bool:
        """Commit what a majority has, if it is of the leader's own term."""
        voting = [0 if peer in self._blank else match for peer, match in self._match.items()]
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

    # What the member asks.

    def propose(self, entry: Entry) -> bool:
        """Put an entry into the leader's log; False if there is no leader to give it to."""
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
            self.propose(Entry(*message["entry"]))

    def read_index(self, done: Done) -> None:
        """Call ``done`` with the index that a linearizable read must see applied. It may never be called: messages
        are lost and leaders change."""
        if self.role == LEADER:
            self._confirm(done)
        elif self.leader is not None:
            self._read_number += 1
            self._asked[self._read_number] = done
            self._send(self.leader, "index?", read=self._read_number)

    def _confirm(self, done: Done) -> None:
        if not self._own_term():
            return  # as etcd: dropped until the leader has committed in its term; who asks tries again
        if not self.peers:
            done(self.disk.commit)
            return
        self._read_number += 1
        self._reads[self._read_number] = (self.disk.commit, {self.name}, done)
        for peer in self.peers:
            self._send(peer, "beat", commit=min(self.disk.commit, self._match[peer]), read=self._read_number)

    def _on_index_asked(self, peer: str, message: dict[str, Any]) -> None:
        number, term = message["read"], self.disk.term

        def confirmed(index: int) -> None:
            if self.disk.term == term:
                self._send(peer, "index", read=number, index=index)

        if self.role == LEADER:
            self._confirm(confirmed)

    def _on_index(self, _peer: str, message: dict[str, Any]) -> None:
        done = self._asked.pop(message["read"], None)
        if done is not None:
            done(message["index"])


_HANDLERS: Final = {
    "vote?": "vote_asked", "vote": "vote", "append": "append", "appended": "appended", "beat": "beat",
    "beaten": "beaten", "newer": "newer", "propose": "propose", "index?": "index_asked", "index": "index",
}  # fmt: skip
