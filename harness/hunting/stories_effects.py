"""What comes of the steps of a story on the servers: whose key went, how, and with which step that is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..story import listed
from .stories_keys import Change
from .stories_parts import Act, Part, Scene, Strike

TOGETHER_NS: Final = 20_000_000
"""Servers that follow each other do within this."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A client's key went on some servers, at about one time."""

    changes: tuple[Change, ...]

    @property
    def time(self) -> int:
        return self.changes[0].time

    @property
    def by(self) -> str:
        return self.changes[0].by

    @property
    def loser(self) -> str:
        old = self.changes[0].old
        return old.client if old is not None else ""

    @property
    def ran_out(self) -> bool:
        return any(change.ran_out for change in self.changes)

    @property
    def hosts(self) -> list[str]:
        return sorted({change.host for change in self.changes})


class Effects:
    """Clauses by the number of the part (in ``parts``, which are in the order of time) that they go before or after.

    ``at`` words a time (ns) and ``on`` the servers on which something is so.
    """

    def __init__(
        self, scene: Scene, parts: Sequence[Part], at: Callable[[int], str], on: Callable[[Sequence[str]], str]
    ) -> None:
        self._scene = scene
        self._parts = parts
        self._at = at
        self._on = on
        self.before: dict[int, list[str]] = {}
        self.after: dict[int, list[str]] = {}
        self._gone_before: dict[tuple[int, str, str], list[Change]] = {}
        for loss in self._losses():
            self._place(loss)
        self._tell_gone()
        self._tell_arrivals()
        self._tell_lease()

    # What was lost.

    def _losses(self) -> list[Loss]:
        """What clients with a part in the story lost by no release of their own, up to the violation."""
        found: list[list[Change]] = []
        for change in self._scene.keys.changes:
            if not self._is_loss(change):
                continue
            last = found[-1][-1] if found else None
            if last is not None and self._same(last, change):
                found[-1].append(change)
            else:
                found.append([change])
        return [Loss(tuple(changes)) for changes in found]

    def _is_loss(self, change: Change) -> bool:
        old, new = change.old, change.new
        if old is None or not old.client or change.time > self._scene.moment:
            return False
        if change.by == old.client or (new is not None and new.client == old.client):
            return False
        return self._told_of(old.client, change.time) and not self._gives_back(old.client, change.time)

    def _same(self, one: Change, other: Change) -> bool:
        owners = [change.old.client for change in (one, other) if change.old is not None]
        return owners[0] == owners[-1] and one.by == other.by and other.time - one.time <= TOGETHER_NS

    def _gives_back(self, client: str, time: int) -> bool:
        """Is the client's last word on the key at that time that it releases it?"""
        said = [
            call.invoke.f
            for call in self._scene.calls
            if call.invoke.node == client and call.invoke.time <= time and call.invoke.f in ("acquire", "release")
        ]
        return bool(said) and said[-1] == "release"

    def _told_of(self, client: str, time: int) -> bool:
        return any(isinstance(part, Act) and part.client == client and part.at <= time for part in self._parts)

    # Where it is told.

    def _place(self, loss: Loss) -> None:
        """With the act or the fault that caused it, else before the next step."""
        doer = self._doer(loss)
        if doer is not None and not loss.ran_out:
            self.after.setdefault(doer, []).append(self._taken(loss))
            return
        cause = None if loss.ran_out else self._cause(loss)
        if cause is not None:
            self.after.setdefault(cause, []).append(self._gone(loss, cause))
            return
        following = doer if doer is not None else self._next(loss.time)
        if following is not None and self._is_about_the_key(self._parts[following]):
            by = loss.by if doer is None else ""
            how = "had run out" if loss.ran_out else f"had been deleted by {by}" if by else "had gone"
            self._gone_before.setdefault((following, loss.loser, how), []).extend(loss.changes)

    def _is_about_the_key(self, part: Part) -> bool:
        """Not so a write: that it comes late is said by the grants before it."""
        return not isinstance(part, Act) or part.call.invoke.f in ("acquire", "release")

    def _doer(self, loss: Loss) -> int | None:
        """The act in which the client did it."""
        for number, part in enumerate(self._parts):
            if isinstance(part, Act) and part.client == loss.by and part.call.invoke.time <= loss.time <= part.until:
                return number
        return None

    def _taken(self, loss: Loss) -> str:
        """By the step of a client; where the key went from one to the other at once, the server may have done it."""
        where = self._on(loss.hosts)
        if loss.changes[0].new is None:
            return f"{loss.by} deletes {loss.loser}'s key{where}"
        return f"the key{where} was {loss.loser}'s until then"

    def _cause(self, loss: Loss) -> int | None:
        """The last fault before it that is not a client's own."""
        clients = set(self._scene.history.nemesis("start")[0].value["clients"])
        struck = [
            number
            for number, part in enumerate(self._parts)
            if isinstance(part, Strike) and part.at <= loss.time and not set(part.record.hosts) <= clients
        ]
        return struck[-1] if struck else None

    def _next(self, time: int) -> int | None:
        return next((number for number, part in enumerate(self._parts) if part.at >= time), None)

    def _gone(self, loss: Loss, cause: int) -> str:
        part = self._parts[cause]
        hit = isinstance(part, Strike) and set(loss.hosts) == set(part.record.hosts)
        where = " there" if hit and self._on(loss.hosts) else self._on(loss.hosts)
        left = [
            host
            for host, one in self._scene.keys.holders(loss.changes[-1].time).items()
            if one.client == loss.loser
        ]  # fmt: skip
        rest = f" ({loss.loser} is left with {listed(left)})" if left else ""
        when = f" at {self._at(loss.time)}" if loss.time - part.at > TOGETHER_NS else ""
        return f"{loss.loser}'s key is gone{where}{when}{rest}"

    def _tell_gone(self) -> None:
        for (following, loser, how), changes in self._gone_before.items():
            first, last = changes[0].time, changes[-1].time
            when = f"at {self._at(first)}" if last - first <= TOGETHER_NS else f"from {self._at(first)} on"
            where = self._on(sorted({change.host for change in changes}))
            self.before.setdefault(following, []).append(f"{loser}'s key{where} {how} {when}")

    def _tell_arrivals(self) -> None:
        """Keys that became a client's when it was not asking (any more): a request that was on its way for long, or a
        place in a queue that nobody gave up."""
        arrived: dict[tuple[int, str], list[Change]] = {}
        for change in self._scene.keys.changes:
            new = change.new
            if new is None or not new.client or change.by != new.client or change.time > self._scene.moment:
                continue
            following = self._next(change.time)
            if following is not None and self._told_of(new.client, change.time) and not self._asking(change):
                arrived.setdefault((following, new.client), []).append(change)
        for (following, client), changes in arrived.items():
            where = self._on(sorted({change.host for change in changes}))
            clause = f"the key{where} had become {client}'s at {self._at(changes[0].time)}"
            self.before.setdefault(following, []).append(clause)

    def _asking(self, change: Change) -> bool:
        return any(
            call.invoke.f == "acquire"
            and call.invoke.node == change.by
            and call.invoke.time <= change.time
            and (call.done is None or change.time <= call.done.time + TOGETHER_NS)
            for call in self._scene.calls
        )

    def _tell_lease(self) -> None:
        """Of an overlap for which no server's key was seen to go: that the lease was over, if it was."""
        violation = self._scene.violation
        if violation.kind != "overlap" or self.before or self.after or not self._parts:
            return
        first = violation.involved[0]
        end = first["lease_end_ns"]
        if end is not None and end < self._parts[-1].at:
            clause = f"{first['client']}'s lease had ended at {self._at(end)}"
            self.before.setdefault(len(self._parts) - 1, []).append(clause)
