"""Effects of a story's steps on the servers: which client lost its key, why, and which step mentions it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.wording import listed

from .keys import OwnerChange
from .parts import CallPart, FaultPart, Part, StoryContext

TOGETHER_NS: Final = 20_000_000
"""Changes on several servers within this time (ns) are one event."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss of a client's key on some servers at about the same time."""

    changes: tuple[OwnerChange, ...]

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
    def expired(self) -> bool:
        return any(change.expired for change in self.changes)

    @property
    def hosts(self) -> list[str]:
        return sorted({change.host for change in self.changes})


class Effects:
    """Clauses about the servers, by the number of the part: what had happened ``before``, and its effects ``after``.

    ``parts`` are in the order of time. ``on`` formats a list of servers.
    """

    def __init__(self, scene: StoryContext, parts: Sequence[Part], on: Callable[[Sequence[str]], str]) -> None:
        self._scene = scene
        self._parts = parts
        self._on = on
        self.before: dict[int, list[str]] = {}
        self.after: dict[int, list[str]] = {}
        self._losses_before: dict[tuple[int, str, str], list[OwnerChange]] = {}
        for loss in self._losses():
            self._place(loss)
        self._add_losses()
        self._add_gains()
        self._add_lease_end()

    # Lost keys.

    def _losses(self) -> list[Loss]:
        """Return the keys that the story's clients lost up to the violation, other than by their own release."""
        found: list[list[OwnerChange]] = []
        for change in self._scene.keys.changes:
            if not self._is_loss(change):
                continue
            last = found[-1][-1] if found else None
            if last is not None and self._belong_together(last, change):
                found[-1].append(change)
            else:
                found.append([change])
        return [Loss(tuple(changes)) for changes in found]

    def _is_loss(self, change: OwnerChange) -> bool:
        old, new = change.old, change.new
        if old is None or not old.client or change.time > self._scene.moment:
            return False
        if change.by == old.client or (new is not None and new.client == old.client):
            return False
        return self._has_step_of(old.client, change.time) and not self._is_releasing(old.client, change.time)

    def _belong_together(self, one: OwnerChange, other: OwnerChange) -> bool:
        owners = [change.old.client for change in (one, other) if change.old is not None]
        return owners[0] == owners[-1] and one.by == other.by and other.time - one.time <= TOGETHER_NS

    def _is_releasing(self, client: str, time: int) -> bool:
        """Return whether the client's last call for the key at that time was a release."""
        calls = [
            call.invoke.f
            for call in self._scene.calls
            if call.invoke.node == client and call.invoke.time <= time and call.invoke.f in ("acquire", "release")
        ]
        return bool(calls) and calls[-1] == "release"

    def _has_step_of(self, client: str, time: int) -> bool:
        return any(isinstance(part, CallPart) and part.client == client and part.at <= time for part in self._parts)

    # The step that mentions a loss.

    def _place(self, loss: Loss) -> None:
        """Attach a loss to the act or fault that caused it, else put it before the next step."""
        call = self._causing_call(loss)
        if call is not None and not loss.expired:
            self.after.setdefault(call, []).append(self._loss_by_client(loss))
            return
        cause = None if loss.expired else self._causing_fault(loss)
        if cause is not None:
            self.after.setdefault(cause, []).append(self._loss_by_fault(loss, cause))
            return
        following = call if call is not None else self._next(loss.time)
        if following is not None and self._is_about_the_key(self._parts[following]):
            by = loss.by if call is None else ""
            how = "had expired" if loss.expired else f"had been deleted by {by}" if by else "had been lost"
            self._losses_before.setdefault((following, loss.loser, how), []).extend(loss.changes)

    def _is_about_the_key(self, part: Part) -> bool:
        """Return whether the part is not an access to the resource. That a write is late follows from the grants before
        it."""
        return not isinstance(part, CallPart) or part.call.invoke.f in ("acquire", "release")

    def _causing_call(self, loss: Loss) -> int | None:
        """Return the number of the act in which a client caused the loss."""
        for number, part in enumerate(self._parts):
            if (
                isinstance(part, CallPart)
                and part.client == loss.by
                and part.call.invoke.time <= loss.time <= part.until
            ):
                return number
        return None

    def _loss_by_client(self, loss: Loss) -> str:
        """Return a clause for a loss caused by a client. The server may have passed the key on directly."""
        where = self._on(loss.hosts)
        if loss.changes[0].new is None:
            return f"{loss.by} deletes {loss.loser}'s key{where}"
        return f"until then {loss.loser} owned the key{where}"

    def _causing_fault(self, loss: Loss) -> int | None:
        """Return the number of the last fault before the loss that struck more than clients."""
        clients = set(self._scene.history.nemesis("start")[0].value["clients"])
        struck = [
            number
            for number, part in enumerate(self._parts)
            if isinstance(part, FaultPart) and part.at <= loss.time and not set(part.record.hosts) <= clients
        ]
        return struck[-1] if struck else None

    def _next(self, time: int) -> int | None:
        return next((number for number, part in enumerate(self._parts) if part.at >= time), None)

    def _loss_by_fault(self, loss: Loss, cause: int) -> str:
        part = self._parts[cause]
        hit = isinstance(part, FaultPart) and set(loss.hosts) == set(part.record.hosts)
        where = " there" if hit and self._on(loss.hosts) else self._on(loss.hosts)
        left = [
            host
            for host, one in self._scene.keys.holders(loss.changes[-1].time).items()
            if one.client == loss.loser
        ]  # fmt: skip
        rest = f" (but remains on {listed(left)})" if left else ""
        when = f" at {self._scene.at(loss.time)}" if loss.time - part.at > TOGETHER_NS else ""
        return f"{loss.loser}'s key is lost{where}{when}{rest}"

    def _add_losses(self) -> None:
        for (following, loser, how), changes in self._losses_before.items():
            first, last = changes[0].time, changes[-1].time
            when = f"at {self._scene.at(first)}" if last - first <= TOGETHER_NS else f"from {self._scene.at(first)} on"
            where = self._on(sorted({change.host for change in changes}))
            self.before.setdefault(following, []).append(f"{loser}'s key{where} {how} {when}")

    def _add_gains(self) -> None:
        """Mention keys that a client acquired while it was not requesting them."""
        arrived: dict[tuple[int, str], list[OwnerChange]] = {}
        for change in self._scene.keys.changes:
            new = change.new
            if new is None or not new.client or change.by != new.client or change.time > self._scene.moment:
                continue
            following = self._next(change.time)
            if following is not None and self._has_step_of(new.client, change.time) and not self._is_requesting(change):
                arrived.setdefault((following, new.client), []).append(change)
        for (following, client), changes in arrived.items():
            where = self._on(sorted({change.host for change in changes}))
            clause = f"{client} had become the owner of the key{where} at {self._scene.at(changes[0].time)}"
            self.before.setdefault(following, []).append(clause)

    def _is_requesting(self, change: OwnerChange) -> bool:
        return any(
            call.invoke.f == "acquire"
            and call.invoke.node == change.by
            and call.invoke.time <= change.time
            and (call.done is None or change.time <= call.done.time + TOGETHER_NS)
            for call in self._scene.calls
        )

    def _add_lease_end(self) -> None:
        """Mention the end of the first holder's lease, if an overlap has no lost key to explain it."""
        violation = self._scene.violation
        if violation.kind != "overlap" or self.before or self.after or not self._parts:
            return
        first = violation.involved[0]
        end = first["lease_end_ns"]
        if end is not None and end < self._parts[-1].at:
            clause = f"{first['client']}'s lease had ended at {self._scene.at(end)}"
            self.before.setdefault(len(self._parts) - 1, []).append(clause)
