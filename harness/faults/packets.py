"""Faults of single packets: damaged, duplicated and reordered ones. TCP repairs all three, which costs time.

A damaged segment has a wrong checksum, so the receiver's kernel drops it and the sender repeats it after 0.2 s and
more. The observation sends datagrams of its own across the links and counts what happens to them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, ClassVar, Final

import msgspec

from harness.clusters.abilities import PACKETS, Needs
from harness.clusters.abilities.network import PacketAlteration
from harness.wording import listed

from .base import Damage, Fault, InjectionContext, Observation, once
from .link import ends, least_hits
from .records import FaultRecord, seconds

DATAGRAMS: Final = 100
LINKS: Final = 4
"""Links that are observed, at most."""


class _PacketFault(Fault, frozen=True):
    """Base: alters packets between ``clients`` and ``servers``, both ways. ``counted`` is the count that shows it."""

    needs: ClassVar[Needs] = frozenset({PACKETS})
    damages_with: ClassVar[str] = "alter_packets"
    fact: ClassVar[str] = "datagrams"
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}
    takes: ClassVar[float] = 2.0
    counted: ClassVar[str]
    words: ClassVar[str]

    clients: str = "clients"
    servers: str = "servers"

    def alteration(self) -> PacketAlteration:
        raise NotImplementedError

    def expected_share(self) -> float:
        """Return the share of datagrams that shows the effect, at least."""
        raise NotImplementedError

    def inject(self, scene: InjectionContext) -> Damage:
        packets = scene.part(PACKETS)
        links = ends(scene, self.clients, self.servers)
        undo = packets.alter_packets(links, self.alteration())
        sample = links[:LINKS]
        least = least_hits(DATAGRAMS, self.expected_share() / 2)  # another fault may hide some

        def look() -> dict[str, dict[str, int]]:
            with ThreadPoolExecutor(LINKS) as pool:
                counts = pool.map(lambda link: packets.count_packets(link[0], link[1], DATAGRAMS), sample)
                return dict(zip(map(_name, sample), counts, strict=True))

        def observe() -> Observation:
            found = look()
            hit = {link: counts[self.counted] >= least for link, counts in found.items()}
            expected = f"at least {least} of {DATAGRAMS} datagrams {self.counted} on each link"
            return Observation(hit, {"datagrams": found}, expected, "links")

        def healed() -> Observation:
            found = look()
            fine = {link: counts[self.counted] == 0 for link, counts in found.items()}
            return Observation(fine, {"datagrams": found}, f"no datagram {self.counted}", "links")

        return Damage(sorted({host for link in links for host in link}), observe, once(undo), healed)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        return f"{cls.amount(record.params)} between {listed(record.hosts)} {cls.words}{ended}"

    @classmethod
    def amount(cls, params: dict[str, Any]) -> str:
        return f"{params.get('share', 0.0):.0%} of the packets"


def _name(link: tuple[str, str]) -> str:
    return ">".join(link)


class PacketCorruption(_PacketFault, frozen=True):
    """In ``share`` of the packets one bit behind the IP header is flipped. The receiver's kernel drops
    them by their checksum."""

    name: ClassVar[str] = "packet-corruption"
    summary: ClassVar[str] = "packets between clients and servers are damaged, dropped by their checksum, and repeated"
    counted: ClassVar[str] = "damaged"
    words: ClassVar[str] = "are damaged, and repeated later"

    share: Annotated[float, msgspec.Meta(gt=0, le=0.9)] = 0.2

    def alteration(self) -> PacketAlteration:
        return PacketAlteration(corrupt=self.share)

    def expected_share(self) -> float:
        return self.share * 64 / 72  # a flip in the header of the datagram loses it


class PacketDuplication(_PacketFault, frozen=True):
    """``share`` of the packets arrive twice."""

    name: ClassVar[str] = "packet-duplication"
    summary: ClassVar[str] = "packets between clients and servers arrive twice"
    disturbs: ClassVar[bool] = False
    counted: ClassVar[str] = "duplicated"
    words: ClassVar[str] = "arrive twice"

    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5

    def alteration(self) -> PacketAlteration:
        return PacketAlteration(duplicate=self.share)

    def expected_share(self) -> float:
        return self.share


class PacketReordering(_PacketFault, frozen=True):
    """Each packet takes up to ``window`` seconds longer, and later ones may overtake it."""

    name: ClassVar[str] = "packet-reordering"
    only_delays: ClassVar[bool] = True
    summary: ClassVar[str] = "packets between clients and servers overtake each other"
    counted: ClassVar[str] = "reordered"
    words: ClassVar[str] = "overtake each other"

    window: Annotated[float, msgspec.Meta(gt=0.002, le=1)] = 0.02

    def alteration(self) -> PacketAlteration:
        return PacketAlteration(reorder_s=self.window)

    def expected_share(self) -> float:
        return 0.1  # datagrams follow each other after 1 ms, so with 20 ms most of them overtake others

    @classmethod
    def amount(cls, params: dict[str, Any]) -> str:
        return f"packets (within {seconds(params.get('window', 0.0))})"
