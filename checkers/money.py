"""Check that no money is created or lost: the shares taken from a packet plus its rest equal its initial content.

A packet is a register whose ``stock`` in the start entry states ``cents`` and ``shares``. A client that takes a share
writes the packet, and then its account, the register ``PACKET/CLIENT``: the sum, in cents, of what it has taken from
this packet so far.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from .accesses import WRITES, Access
from .base import Violation
from .view import View


def packets(columns: View) -> dict[str, int]:
    """Return the initial content of each packet, in cents."""
    stock: Mapping[str, Any] = columns.settings.get("stock") or {}
    return {name: about["cents"] for name, about in stock.items() if isinstance(about, dict) and "cents" in about}


def conserved(columns: View, by_key: Mapping[str, list[Access]], lost: Mapping[str, list[int]]) -> list[Violation]:
    """Return a violation for each packet whose sums are wrong, whatever the writes with lost answers did.

    Such a write may have set its register, or may still set it. A share may be missing if its client did not write it
    to its account (a crash, a refusal, a lost answer); but nothing explains money that never existed.
    """
    accounts: defaultdict[str, list[str]] = defaultdict(list)
    for key in sorted({*by_key, *lost}):
        accounts[key.partition("/")[0]].append(key)
    found = []
    for packet, total in packets(columns).items():
        own = [key for key in accounts[packet] if key != packet]
        rest = _Range(columns, {"cents": total}, by_key.get(packet, []), lost.get(packet, []))
        shares = {key: _Range(columns, 0, by_key.get(key, []), lost.get(key, [])) for key in own}
        if rest.least + sum(account.least for account in shares.values()) > total:
            figures = {key: account.least for key, account in shares.items()}
            found.append(_violation(columns, packet, total, rest.least, figures, by_key))
        elif (
            _all_paid(rest, shares, lost.get(packet, []))
            and rest.most + sum(account.most for account in shares.values()) < total
        ):
            figures = {key: account.most for key, account in shares.items()}
            found.append(_violation(columns, packet, total, rest.most, figures, by_key))
    return found


class _Range:
    """The least and the most that a register may hold in the end, in cents, and how many writes were accepted."""

    def __init__(self, columns: View, initial: Any, accepted: list[Access], lost: list[int]) -> None:
        written = [access.value for access in accepted if access.f in WRITES]
        last = written[-1] if written else initial
        cents = [_cents(value) for value in (last, *_unknown(columns, lost))]
        self.writes = len(written)
        self.least, self.most = min(cents), max(cents)


def _unknown(columns: View, lost: list[int]) -> list[Any]:
    """Return the values that writes with lost answers may have set."""
    return [columns.value[index]["value"] for index in lost]


def _all_paid(rest: _Range, shares: Mapping[str, _Range], lost: list[int]) -> bool:
    """Return whether each share that left the packet is in an account."""
    return not lost and rest.writes == sum(account.writes for account in shares.values())


def _cents(value: Any) -> int:
    return int(value["cents"] if isinstance(value, dict) else value)


def _violation(
    columns: View, packet: str, total: int, rest: int, shares: dict[str, int], by_key: Mapping[str, list[Access]]
) -> Violation:
    off = rest + sum(shares.values()) - total
    amounts = ", ".join(f"{key.partition('/')[2]} {cents}" for key, cents in shares.items() if cents)
    steps = (
        _first_stale_write(by_key.get(packet, [])) or [access for key in shares for access in by_key.get(key, [])][-2:]
    )
    steps = steps or by_key[packet][-1:]
    moment = steps[-1]
    sentence = (
        f"{abs(off)} cents of {packet} were {'created' if off > 0 else 'lost'}: it had {total} cents, clients took "
        f"{sum(shares.values())} ({amounts}), and {rest} are left"
    )
    if len(steps) == _OF_THREE:
        read, other, write = steps
        sentence += (
            f"; {columns.name(write.client)} read it at {columns.at(read.done_ns)} and wrote it at "
            f"{columns.at(write.done_ns)}, and {columns.name(other.client)} had taken a share in between"
        )
    involved = tuple(columns.call(access.invoke) for access in steps)
    kind = "money-made" if off > 0 else "money-lost"
    return Violation(kind, packet, sentence, moment.done_ns, moment.done_ns, involved)


_OF_THREE: Final = 3


def _first_stale_write(accepted: list[Access]) -> list[Access]:
    """Return the first write that is not based on the newest value, after its client's read and that newest write."""
    newest: Access | None = None
    seen: dict[int, Access] = {}
    for access in accepted:
        if access.f not in WRITES:
            seen[access.client] = access
            continue
        read = seen.pop(access.client, None)
        if newest is not None and read is not None and read.value != newest.value:
            return [read, newest, access]
        newest = access
    return []
