"""What a fault does, in words: a clause that goes on after "At 0.205 s"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..plan import Delay, FaultSpec
from ..story import FaultRecord, listed

Says = Callable[[FaultRecord, str], str]
"""Of a fault that was seen and the time of its end (" until 3.850 s", or nothing while it lasts)."""


def struck(record: FaultRecord, ended: str) -> str:
    """What happened to whom. ``ended`` is " until 3.850 s" for a fault that was over before the violation, else
    nothing; what came of it later is not told."""
    for fact, says in _BY_FACT.items():
        if record.seen and fact in record.observed:
            return says(record, ended)
    return f"{record.fault} strikes {listed(record.hosts) or 'nobody'}{ended}"


def occasion(spec: FaultSpec, record: FaultRecord, who: str) -> str:
    """At which step of the client ``who`` (empty: nobody knows whose) it strikes, if the plan says so; what follows an
    acquire needs no words."""
    if spec.on is None or spec.delay or spec.on == "acquire":
        return ""
    whose = "its" if record.hosts == (who,) else f"{who}'s"
    event, _, phase = spec.on.partition(":")
    if event in ("request", "reply"):
        return f", as {'a' if not who else whose} {phase} is {'sent' if event == 'request' else 'answered'}"
    if not who:
        return ""
    if phase == "invoke":
        return f", as {who} asks" if event == "acquire" else f", as {who} is about to {event}"
    return f", right after {whose} {event}"


def late(delay: Delay) -> str:
    """A message that took longer."""
    return f"message {delay.nth} from {delay.source} to {delay.target} comes {seconds(delay.by)} late"


def seconds(value: float) -> str:
    """``3 s``, ``0.25 s``."""
    return f"{round(value, 3):g} s"


def _ahead(ns: int) -> str:
    return f"{round(ns / 1e9, 3):+g} s"


def _clocks(record: FaultRecord, ended: str) -> str:
    moved: dict[str, int] = record.observed["moved_ns"]
    shifts = sorted(set(moved.values()))
    verb = "is off by" if record.fault == "clock-offset" else "jumps"
    if len(shifts) == 1:
        if len(moved) == 1:
            return f"{listed(moved)}'s wall clock {verb} {_ahead(shifts[0])}{ended}"
        verbs = "are off by" if record.fault == "clock-offset" else "jump"
        return f"the wall clocks of {listed(moved)} {verbs} {_ahead(shifts[0])}{ended}"
    each = ", ".join(f"{host}'s {_ahead(ns)}" for host, ns in moved.items())
    return f"wall clocks jump ({each}){ended}"


def _drift(record: FaultRecord, ended: str) -> str:
    rate = record.observed["rate"]
    pace = f"{abs(rate):.0%} too {'fast' if rate > 0 else 'slow'}"
    several = len(record.hosts) > 1
    return f"the wall clock{'s' * several} of {listed(record.hosts)} begin{'s' * (not several)} to run {pace}{ended}"


def _failover(record: FaultRecord, _: str) -> str:
    facts = record.observed
    how = {"pause": "stands still", "isolate": "is cut off"}.get(record.params.get("how", ""), "dies")
    what = "leader" if record.fault == "leader-loss" else "primary"
    after = f"{facts['primary_after']} takes over {facts['seconds']:.1f} s later"
    return f"the {what} {facts['primary_before']} {how}, and {after}"


def _killed(record: FaultRecord, ended: str) -> str:
    several = len(record.hosts) > 1
    what = (
        ("lose power" if several else "loses power")
        if record.fault == "power-loss"
        else ("are killed" if several else "is killed")
    )
    empty = record.observed.get("after_heal", {}).get("wiped") or []
    lost = (
        "" if not empty else " without data" if set(empty) == set(record.hosts) else f", {listed(empty)} without data"
    )
    return f"{listed(record.hosts)} {what}" + (f", and back{ended.replace(' until', ' at')}{lost}" if ended else "")


def _cut(record: FaultRecord, ended: str) -> str:
    links = [tuple(link.split(">")) for link in record.observed["cut"]]
    one_way = not {(b, a) for a, b in links} & set(links)
    if one_way:
        sources, targets = sorted({a for a, _ in links}), sorted({b for _, b in links})
        return f"nothing gets through any more from {listed(sources)} to {listed(targets)}{ended}"
    sides = _sides(links)
    if sides is None:
        pairs = sorted({" and ".join(sorted(link)) for link in links})
        return f"the network is cut between {'; '.join(pairs)}{ended}"
    here, there = sides
    return f"{listed(here)} {'are' if len(here) > 1 else 'is'} cut off from {listed(there)}{ended}"


def _sides(links: list[Any]) -> tuple[list[str], list[str]] | None:
    """The two groups between which all links are cut, the first by name first; None if there are no such two."""
    first = min(min(link) for link in links)
    there = sorted({b for a, b in links if a == first} | {a for a, b in links if b == first})
    here = sorted({a for a, b in links if b in there and a not in there})
    every = {frozenset((a, b)) for a in here for b in there}
    return (here, there) if every == {frozenset(link) for link in links} else None


def _message(record: FaultRecord, _: str) -> str:
    clients = [host for host in record.hosts if host.startswith("c")]
    servers = [host for host in record.hosts if host not in clients]
    delay = record.observed["delay"]
    if delay is None:
        return f"an answer from {listed(servers)} to {listed(clients)} is lost"
    return f"a request from {listed(clients)} to {listed(servers)} is held back for {seconds(delay)}"


def _state(record: FaultRecord, ended: str) -> str:
    several = len(record.hosts) > 1
    if "paused" in record.observed["state"].values():
        return f"{listed(record.hosts)} {'stand' if several else 'stands'} still{ended}"
    back = f", and {'start' if several else 'starts'} anew{ended.replace(' until', ' at')}"
    again = back if ended and record.params.get("restart") else ""
    return f"{listed(record.hosts)} {'die' if several else 'dies'}{again}"


def _packets(record: FaultRecord, ended: str) -> str:
    params = record.params
    how = {
        "latency": f"take {seconds(params.get('delay', 0.0))} longer each way",
        "slow-link": f"crawl ({params.get('rate', 0.0):g} bytes a second)",
        "packet-loss": f"are lost, {params.get('loss', 0.0):.0%} of them",
    }.get(record.fault, "come badly")
    return f"packets among {listed(record.hosts)} {how}{ended}"


_BY_FACT: Final[dict[str, Says]] = {
    "moved_ns": _clocks,
    "rate": _drift,
    "primary_before": _failover,
    "keys_before": _killed,
    "cut": _cut,
    "messages": _message,
    "hung": lambda record, _: f"the thread of {listed(record.hosts)} that does the work hangs; its others go on",
    "swallowed": lambda record, ended: f"nothing gets through among {listed(record.hosts)}, on open connections{ended}",
    "broken": lambda record, _: f"the connections of {listed(record.hosts)} are reset",
    "flood": lambda record, _: f"{listed(record.hosts)} runs out of memory and evicts what is old",
    "state": _state,
    "disk": lambda record, ended: f"the disk of {listed(record.hosts)} takes no writes{ended}",
    "probe": _packets,
    "probes": _packets,
}
"""By a fact that only faults of that family report; the first that is there counts."""
