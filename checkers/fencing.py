"""Check that fencing tokens grow with every grant, and that the resource accepts no stale token (``FO``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from harness.history import History

from .accesses import Access, accesses
from .base import Blame, Verdict, Violation, conclude, no_lock_taken, not_applicable
from .holds import Hold, Holds, holds
from .leases import Leases, reason
from .mutual_exclusion import too_few
from .view import View, view


class FencingChecker:
    """Tokens grow with every grant, and the resource accepts no stale one.

    Do tokens of successive grants of a key grow? Successive is by real time: one grant was back before the other was
    asked for; of two grants that were under way at once nobody knows the order, so only equal tokens count. Was an
    access accepted though the resource had accepted a higher token of another client before (arrival order)? That is
    flagged whatever ``fencing`` is. String tokens have no order: they must only differ. Grants nested in a hold of the
    same client may repeat its token, and so may shared ones. A shared access is stale if a higher token had been used
    by one that was not: those who share the lock come in any order.

    To blame for a stale access is a resource that fences (*service*); else it is who broke the lease of the older
    token, if the newer one was handed out during that hold (``harness.checkers.leases``), and the *client* if that was
    over.
    """

    name = "fencing"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        found, columns = holds(history), view(history)
        tokens = [hold for hold in found if hold.fence is not None]
        violations = [*_out_of_order(columns, tokens), *_repeated(columns, tokens)]
        violations += _stale(_Grants(history), accesses(columns))
        if not violations and not tokens:
            return not_applicable(history, "the lock issues no tokens", stats={"tokens": 0})
        return conclude(
            history,
            violations,
            fine=_fine(tokens),
            doubts=(too_few(found), _without_order(columns, tokens), _without_token(found, tokens)),
            stats={"tokens": len(tokens)},
        )


def _fine(tokens: list[Hold]) -> str:
    if all(is_ordered(hold.fence) for hold in tokens):
        return f"the tokens of {len(tokens)} grants are in order, and the resource accepted no stale one"
    return f"the tokens of {len(tokens)} grants differ; they are texts, which have no order"


def is_ordered(token: Any) -> bool:
    """Return whether tokens of this type have an order: integers have one; strings (and booleans) have none."""
    return isinstance(token, int) and not isinstance(token, bool)


def _without_token(found: Holds, tokens: list[Hold]) -> str | None:
    """Return a doubt if grants have no token although others have one. Shared grants need none."""
    bare = len(found) - int(found.shared.sum()) - sum(not hold.shared for hold in tokens)
    if not bare:
        return None
    return f"{bare} of {len(found)} grants had no token, so nothing could tell them from older ones"


def _without_order(columns: View, tokens: list[Hold]) -> str | None:
    """Return a doubt if the resource was to refuse older tokens and could not compare any of them."""
    if columns.settings.get("fencing") != "on" or any(is_ordered(hold.fence) for hold in tokens):
        return None
    return "the tokens are texts, which have no order, so the resource could refuse none of them as too old"


def _out_of_order(columns: View, tokens: list[Hold]) -> Iterator[Violation]:
    """Yield each grant that was requested after a grant with a higher token had returned."""
    by_key: defaultdict[str, list[Hold]] = defaultdict(list)
    for hold in tokens:
        if is_ordered(hold.fence):
            by_key[hold.key].append(hold)
    for grants in by_key.values():
        yield from _falling(columns, grants)


def _falling(columns: View, grants: list[Hold]) -> Iterator[Violation]:
    """Compare each request, in time order, with the highest token returned before it. Equal tokens are for
    ``_repeated``."""
    back = sorted(grants, key=lambda hold: hold.start_ns)
    highest: Hold | None = None
    seen = 0
    for hold in sorted(grants, key=lambda hold: int(columns.time[hold.acquire])):
        requested_ns = int(columns.time[hold.acquire])
        while seen < len(back) and back[seen].start_ns < requested_ns:
            if highest is None or _token(back[seen]) > _token(highest):
                highest = back[seen]
            seen += 1
        if highest is not None and _token(hold) < _token(highest):
            yield _pair(columns, "token-fell", highest, hold)


def _token(hold: Hold) -> int:
    assert isinstance(hold.fence, int)
    return hold.fence


def _repeated(columns: View, tokens: list[Hold]) -> Iterator[Violation]:
    """Yield each token granted twice for a key, not counting shared grants: in either order it did not grow."""
    first: dict[tuple[str, Any], Hold] = {}
    for hold in tokens:
        earlier = first.setdefault((hold.key, hold.fence), hold)
        if earlier is not hold and not (earlier.shared and hold.shared):
            yield _pair(columns, "token-repeated", earlier, hold)


def _pair(columns: View, kind: str, one: Hold, two: Hold) -> Violation:
    first, second = (f"{hold.client} at {columns.at(hold.start_ns)}" for hold in (one, two))
    if kind == "token-repeated":
        sentence = f"Two grants of {two.key} have the same token {two.fence}: to {first}, and to {second}"
    else:
        sentence = f"The token of {two.key} fell from {one.fence} (granted to {first}) to {two.fence} (to {second})"
    involved = (one.to_json(), two.to_json())
    return Violation(kind, two.key, sentence, one.start_ns, two.start_ns, involved, "service")


class _Grants:
    """Finds the cause of an access with a stale token, from the holds of both tokens."""

    def __init__(self, history: History) -> None:
        self.found, self.view, self._history = holds(history), view(history), history

    @cached_property
    def leases(self) -> Leases:
        return Leases.of(self._history)

    @cached_property
    def rows(self) -> dict[tuple[int, str, Any], int]:
        """Return the row of the hold of each client, key and token."""
        return {(int(self.found.client[row]), hold.key, hold.fence): row for row, hold in enumerate(self.found)}

    def blame(self, newer: Access, stale: Access) -> tuple[Blame, str]:
        """Return the cause, and why the newer token was granted during the older hold (empty if it had ended)."""
        if self.view.settings.get("fencing") == "on":
            return "service", ""
        one, two = (self.rows.get((access.client, access.key, access.fence)) for access in (stale, newer))
        if one is None or two is None:
            return "client", ""
        granted, at = int(self.found.start[two]), self.view.at
        if granted < self.found.start[one]:
            return "service", ""  # an older token was granted after a newer one
        lease, ruling = self.leases.overlap(self.found, one, two)
        if ruling.blame == "client" or self.found.end[one] <= granted:
            return "client", ""
        why = reason(lease, ruling, at)
        return ruling.blame, f"; {self.view.name(newer.client)} had acquired {newer.key} at {at(granted)}: {why}"


def _stale(grants: _Grants, by_key: dict[str, list[Access]]) -> Iterator[Violation]:
    for accepted in by_key.values():
        yield from _regressions(grants, [access for access in accepted if is_ordered(access.fence)])


def _regressions(grants: _Grants, accepted: list[Access]) -> Iterator[Violation]:
    """Yield accesses, in arrival order, below the highest token that another client had used before.

    A client's own tokens do not count: after a nested hold it may continue with the token of the outer one.
    """
    highest: dict[int, Access] = {}
    alone: dict[int, Access] = {}  # the highest tokens of accesses that were not shared
    for access in accepted:
        others = alone if access.shared else highest
        newer = max((a for client, a in others.items() if client != access.client), key=_fence, default=None)
        if newer is not None and access.fence < newer.fence:
            yield _accepted(grants, newer, access)
        for tokens_seen in (highest,) if access.shared else (highest, alone):
            own = tokens_seen.get(access.client)
            if own is None or own.fence < access.fence:
                tokens_seen[access.client] = access


def _fence(access: Access) -> int:
    return int(access.fence)


def _accepted(grants: _Grants, newer: Access, stale: Access) -> Violation:
    columns = grants.view
    fencing = columns.settings.get("fencing")
    hint = "" if fencing == "on" else "; a resource that fences would have stopped it"
    blame, why = grants.blame(newer, stale)
    sentence = (
        f"The resource accepted a stale token: {columns.name(stale.client)}'s {stale.f} of {stale.key} with token "
        f"{stale.fence} at {columns.at(stale.done_ns)}, after {columns.name(newer.client)} had used {newer.fence} "
        f"(accesses {newer.arrival} and {stale.arrival}; fencing was {fencing or 'not stated'}){why}{hint}"
    )
    involved = (columns.call(newer.invoke), columns.call(stale.invoke))
    return Violation("stale-accepted", stale.key, sentence, newer.done_ns, stale.done_ns, involved, blame)
