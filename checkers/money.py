"""Money is neither made nor lost: what was grabbed of a packet and what is left in it are what was in it.

A packet is a register whose ``stock`` in the start entry says ``cents`` and ``shares``; who grabs a share writes the
packet and then the register ``PACKET/CLIENT``, its account: what it has got from this packet so far, in cents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from checkers.accesses import WRITES, Access
from checkers.base import Violation
from checkers.view import View


def packets(columns: View) -> dict[str, int]:
    """What was in each packet, in cents."""
    stock: Mapping[str, Any] = columns.settings.get("stock") or {}
    return {name: about["cents"] for name, about in stock.items() if isinstance(about, dict) and "cents" in about}


def conserved(columns: View, by_key: Mapping[str, list[Access]], lost: Mapping[str, list[int]]) -> list[Violation]:
    """Each packet whose books cannot be right, whatever became of the writes with lost answers.

    Such a write may have set its register, or may yet. A share that its grabber did not come to write down (a crash, a
    refusal, a lost answer) may be missing; but nothing explains money that was never there.
    """
    accounts: defaultdict[str, list[str]] = defaultdict(list)
    for key in sorted({*by_key, *lost}):
        accounts[key.partition("/")[0]].append(key)
    found = []
    for packet, total in packets(columns).items():
        own = [key for key in accounts[packet] if key != packet]
        rest = _Range(columns, {"cents": total}, by_key.get(packet, []), lost.get(packet, []))
        grabbed = {key: _Range(columns, 0, by_key.get(key, []), lost.get(key, [])) for key in own}
        if rest.least + sum(account.least for account in grabbed.values()) > total:
            figures = {key: account.least for key, account in grabbed.items()}
            found.append(_violation(columns, packet, total, rest.least, figures, by_key))
        elif (
            _all_paid(rest, grabbed, lost.get(packet, []))
            and rest.most + sum(account.most for account in grabbed.values()) < total
        ):
            figures = {key: account.most for key, account in grabbed.items()}
            found.append(_violation(columns, packet, total, rest.most, figures, by_key))
    return found


class _Range:
    """What a register may hold in the end, in cents, and how many writes of it were accepted."""

    def __init__(self, columns: View, initial: Any, accepted: list[Access], lost: list[int]) -> None:
        written = [access.value for access in accepted if access.f in WRITES]
        last = written[-1] if written else initial
        cents = [_cents(value) for value in (last, *_unknown(columns, lost))]
        self.writes = len(written)
        self.least, self.most = min(cents), max(cents)


def _unknown(columns: View, lost: list[int]) -> list[Any]:
    """The values that writes with lost answers may have set."""
    return [columns.value[index]["value"] for index in lost]


def _all_paid(rest: _Range, grabbed: Mapping[str, _Range], lost: list[int]) -> bool:
    """Whether each share that left the packet is in an account."""
    return not lost and rest.writes == sum(account.writes for account in grabbed.values())


def _cents(value: Any) -> int:
    return int(value["cents"] if isinstance(value, dict) else value)


def _violation(
    columns: View, packet: str, total: int, rest: int, grabbed: dict[str, int], by_key: Mapping[str, list[Access]]
) -> Violation:
    off = rest + sum(grabbed.values()) - total
    shares = ", ".join(f"{key.partition('/')[2]} {cents}" for key, cents in grabbed.items() if cents)
    steps = _astray(by_key.get(packet, [])) or [access for key in grabbed for access in by_key.get(key, [])][-2:]
    steps = steps or by_key[packet][-1:]
    moment = steps[-1]
    sentence = (
        f"{packet} had {total} cents in it, and {sum(grabbed.values())} were grabbed ({shares}) and {rest} are left: "
        f"{abs(off)} cents were {'made' if off > 0 else 'lost'}"
    )
    if len(steps) == _OF_THREE:
        read, other, write = steps
        sentence += (
            f"; {columns.name(write.client)} wrote it at {columns.at(write.done_ns)} as it had been at "
            f"{columns.at(read.done_ns)}, and {columns.name(other.client)} had grabbed in between"
        )
    involved = tuple(columns.call(access.invoke) for access in steps)
    kind = "money-made" if off > 0 else "money-lost"
    return Violation(kind, packet, sentence, moment.done_ns, moment.done_ns, involved)


_OF_THREE: Final = 3


def _astray(accepted: list[Access]) -> list[Access]:
    """The first write that does not rest on the newest value: what its client had read, that newest one, and the
    write."""
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
