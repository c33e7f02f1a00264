"""Sample runs for the tests of reports: invented but consistent, and the same bytes every time.

``write(folder, kind)`` makes a run folder; the kinds are in :data:`KINDS`. From the command line: ``python
tests/reports/sample.py KIND FOLDER``."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.documents.messages import TRACE, MessageTrace, TracedMessage, pack_messages
from harness.history import NEMESIS, History, Op
from harness.history.lock_keys import KEYS, KeyState, KeyWriter

KINDS: Final = ("violation", "fenced", "valid", "unknown", "interrupted", "large")
CLIENTS: Final = tuple(f"c{i}" for i in range(5))
SERVERS: Final = tuple(f"n{i}" for i in range(1, 6))
JUMPED: Final = ("n2", "n3", "n5")
"""The servers whose clocks jump ahead far enough for a lease to end."""
START_NS: Final = 5_000_000_000_000
WALL_NS: Final = 1_795_233_600_000_000_000
TTL: Final = 2.0
SECOND: Final = 1_000_000_000
Entry = dict[str, Any]


@dataclass
class Script:
    """Collects entries at times in seconds, in any order, and the resulting faults and overlaps."""

    rng: random.Random
    entries: list[tuple[int, int, Entry]] = field(default_factory=list)
    faults: list[Entry] = field(default_factory=list)
    overlaps: list[tuple[Entry, Entry]] = field(default_factory=list)
    holds: list[Entry] = field(default_factory=list)
    states: list[KeyState] = field(default_factory=list)
    looks: random.Random = field(default_factory=lambda: random.Random(8))
    process: dict[str, int] = field(default_factory=lambda: {c: i for i, c in enumerate(CLIENTS)})
    fence: int = 0
    fencing: str = "off"

    def add(self, at: float, process: int, kind: str, f: str, **rest: Any) -> Entry:
        entry = {"at": ns(at), "process": process, "type": kind, "f": f, **rest}
        self.entries.append((ns(at), len(self.entries), entry))
        return entry

    def history(self) -> History:
        """Return the entries sorted by time and numbered; each entry gets its ``index``."""
        history, resource = History(), Resource(self.fencing)
        for index, (time, _, entry) in enumerate(sorted(self.entries, key=lambda item: item[:2])):
            entry["index"] = index
            resource.answer(entry)
            fields = {name: value for name, value in entry.items() if name not in ("at", "index", "token")}
            history.append(Op(index=index, time=time, wall=time - START_NS + WALL_NS, **fields))
        return history


@dataclass
class Resource:
    """Numbers the accepted accesses in the order of time. With fencing it refuses tokens lower than an earlier
    one."""

    fencing: str
    arrival: int = 0
    highest: int = 0

    def answer(self, entry: Entry) -> None:
        if "token" not in entry:
            return
        if self.fencing == "on" and entry["token"] < self.highest:
            entry |= {"type": "fail", "error": "stale fence", "value": None}
            return
        self.arrival += 1
        self.highest = max(self.highest, entry["token"])
        entry["value"]["arrival"] = self.arrival


def ns(seconds: float) -> int:
    return START_NS + round(seconds * 1_000_000) * 1000


def write(folder: Path, kind: str, operations: int = 100_000) -> Path:
    """Make the run folder ``folder`` with a run of ``kind`` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    limit = operations / 4 * 0.0124 if kind == "large" else 30.0
    script = _script(kind, limit)
    history = script.history()
    history.save(folder / "history.jsonl")
    with KeyWriter(folder / KEYS) as writer:
        for state in sorted(script.states, key=lambda state: state.time):
            writer.write(state)
    if kind == "interrupted":
        _cut(folder / "history.jsonl")
    if kind == "large":
        (folder / TRACE).write_bytes(pack_messages(_trace(script)))
    _results(folder, kind, script, history, limit)
    _others(folder)
    return folder


def _script(kind: str, limit: float) -> Script:
    script = Script(random.Random(7), fencing="on" if kind == "fenced" else "off")
    start = {"clients": CLIENTS, "servers": SERVERS, "discipline": "trusting", "fencing": script.fencing, "ttl": TTL}
    script.add(0, NEMESIS, "info", "start", value=start | {"hold": 0.1, "slack": 1.0, "workload": "mutex", "stock": {}})
    if kind != "unknown":
        _clock_faults(script, limit)
    _pause(script, limit)
    _clients(script, kind, limit)
    script.add(limit, NEMESIS, "info", "stop", value={"reason": "time limit"})
    return script


def _clock_faults(script: Script, limit: float) -> None:
    jumps = [(0.2, ["n2"], 1.0), (0.45, [*JUMPED], 12.0), (0.75, ["n4"], -3.0)]
    for i, (share, hosts, jump) in enumerate(jumps):
        begun, until = share * limit, (share + 0.13) * limit
        offsets = {host: round(jump * SECOND) for host in hosts}
        named = {"id": i, "fault": "clock-jump", "hosts": hosts}
        params = {"by": f"{jump:g}s"}
        script.add(begun, NEMESIS, "invoke", "inject", value=named | {"disturbs": False, "params": params})
        script.add(begun + 0.002, NEMESIS, "ok", "inject", value=named | {"observed": {"clock_ns": offsets}})
        script.add(begun + 0.003, NEMESIS, "info", "clocks", value={s: offsets.get(s, 0) for s in SERVERS})
        script.add(until, NEMESIS, "ok", "heal", value=named | {"observed": {"clock_ns": dict.fromkeys(hosts, 0)}})
        script.add(until + 0.001, NEMESIS, "info", "clocks", value=dict.fromkeys(SERVERS, 0))
        times = {"injected_ns": ns(begun + 0.002), "healed_ns": ns(until)}
        script.faults.append(named | {"params": params, "seen": True, "observed": {"clock_ns": offsets}} | times)


def _pause(script: Script, limit: float) -> None:
    named = {"id": len(script.faults), "fault": "client-pause", "hosts": ["c4"]}
    begun, until = 0.92 * limit, 0.95 * limit
    script.add(begun, NEMESIS, "invoke", "inject", value=named | {"disturbs": True, "params": {"for": "0.9s"}})
    expected = "expected c4 to be stopped, saw it running"
    observed = {"observed": {"state": {"c4": "R"}}}
    script.add(begun + 0.01, NEMESIS, "fail", "inject", value=named | observed, error=expected)
    script.add(until, NEMESIS, "ok", "heal", value=named | observed)
    seen = {"seen": False, **observed, "error": expected}
    times = {"injected_ns": ns(begun), "healed_ns": ns(until)}
    script.faults.append(named | {"params": {"for": "0.9s"}} | seen | times)


def _clients(script: Script, kind: str, limit: float) -> None:
    """Add holds of k0, one client after another. For kinds with violations some are granted during another hold."""
    ready = {client: 0.05 + 0.01 * i for i, client in enumerate(CLIENTS)}
    quick = kind == "large"
    free, kept, broken = 0.0, 0.0, 0
    bad = kind in ("violation", "fenced", "large", "interrupted")
    while (client := min(ready, key=lambda c: (ready[c], c))) and max(ready[client], free) < limit - 2.5:
        now = max(ready[client], free)
        breaks = bad and broken < 3 and 0.46 * limit + broken < now < 0.58 * limit
        length = 1.2 + 0.2 * broken if breaks else (0.008 if quick else 0.1) * script.rng.uniform(0.8, 1.3)
        hold = _cycle(script, client, ready[client], now, length)
        if broken and len(script.overlaps) < broken:
            script.overlaps.append((script.holds[-2], hold))
        free = hold["until"] - (0.45 if breaks else -0.001)
        _keys(script, hold, now, JUMPED if now < kept else SERVERS, free - 0.02 if breaks else None)
        kept = max(kept, hold["until"])
        broken += breaks
        ready[client] = hold["done"] + (0.004 if quick else 0.06) * script.rng.uniform(0.5, 2)
        _trouble(script, client, ready, limit, quick)


def _cycle(script: Script, client: str, asked: float, granted: float, length: float) -> Entry:
    rng, process = script.rng, script.process[client]
    script.fence += 1
    fence, reach = script.fence, rng.lognormvariate(-6.0, 0.5)
    got, until = granted + reach, granted + reach + length
    on = {"key": "k0", "node": client}
    invoked = script.add(asked, process, "invoke", "acquire", value={"timeout": 5.0}, **on)
    acquired = script.add(got, process, "ok", "acquire", value={"fence": fence, "valid_for": TTL - 0.03}, **on)
    value = rng.randrange(1000)
    step = length / 10
    script.add(got + step / 2, process, "invoke", "read", value={"fence": fence}, **on)
    script.add(got + step, process, "ok", "read", value={"value": value}, token=fence, **on)
    writes = script.add(until - 2 * step, process, "invoke", "write", value={"fence": fence, "value": value + 1}, **on)
    wrote = script.add(until - step, process, "ok", "write", value={}, token=fence, **on)
    released = script.add(until, process, "invoke", "release", **on)
    script.add(until + reach / 2, process, "ok", "release", **on)
    ends = {"until": until, "done": until + reach, "got": got, "fence": fence, "client": client, "process": process}
    entries = {"asked": invoked, "acquired": acquired, "released": released, "write": (writes, wrote)}
    script.holds.append(ends | entries)
    return script.holds[-1]


def _keys(script: Script, hold: Entry, asked: float, servers: tuple[str, ...], lost: float | None) -> None:
    """Return the servers' state of k0 for a hold. The servers in ``lost``, whose clocks jumped, lose it early."""
    owner, client = f"{hold['fence']:08x}{hold['client']}", hold["client"]
    for server in servers:
        begun = asked + (hold["got"] - asked) * script.looks.random() * 0.9
        script.states.append(KeyState(ns(begun), server, "k0", owner, int(TTL * SECOND), by=client))
        gone = lost if server in JUMPED else None
        back = hold["until"] + 0.0009 * script.looks.random()
        end, by = (back, client) if gone is None else (gone, None)
        script.states.append(KeyState(ns(end), server, "k0", by=by))


def _trouble(script: Script, client: str, ready: dict[str, float], limit: float, quick: bool) -> None:
    """Add some acquires that fail or have an unknown outcome."""
    chance = script.rng.random()
    if chance > 0.08:
        return
    asked, on = ready[client], {"key": "k0", "node": client}
    wait = (0.02 if quick else 0.4) * script.rng.uniform(0.5, 1.5)
    process = script.process[client]
    script.add(asked, process, "invoke", "acquire", value={"timeout": 0.5}, **on)
    if chance > 0.02:
        script.add(asked + wait, process, "fail", "acquire", error="not granted in 0.5 s", **on)
    else:
        script.add(asked + wait, process, "info", "acquire", error="TimeoutError: n3 did not answer", **on)
        script.process[client] = max(script.process.values()) + 1
    ready[client] = asked + wait + 0.001


def _trace(script: Script) -> MessageTrace:
    """Return the messages of the holds on two servers: a request that sets the key, and one that deletes it."""
    sent = []
    for hold in script.holds:
        for server in SERVERS[:2]:
            token, index = f"{hold['fence']:08x}{hold['client']}", hold["asked"]["index"]
            sent.append((hold["got"] - 0.0008, server, hold, f"SET k0 {token} NX PX 2000", "+OK", index))
            sent.append((hold["until"], server, hold, f"EVALSHA DELETE 1 k0 {token}", ":1", hold["released"]["index"]))
    messages = (
        TracedMessage(
            number=number, client=hold["client"], server=server, connection=f"{hold['client']}>{server}",
            name=asked.split()[0], request=asked, reply=reply, sent=ns(at), arrived=ns(at + 0.0001),
            executed=ns(at + 0.0001), replied=ns(at + 0.0002), process=hold["process"], call=index,
        )
        for number, (at, server, hold, asked, reply, index) in enumerate(sorted(sent, key=lambda one: one[:2]), 1)
    )  # fmt: skip
    kept = tuple(messages)
    return MessageTrace(schema=1, kind="redis-independent", backend="sim", mode="on", total=len(kept), messages=kept)


def _cut(path: Path) -> None:
    """Truncate the history as a killed run does: two thirds of the entries, the last one half written."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])


def _results(folder: Path, kind: str, script: Script, history: History, limit: float) -> None:
    evidence = [_evidence(a, b) for a, b in script.overlaps]
    valid = False if evidence else None if kind == "unknown" else True
    results = _verdict(valid, evidence) | _setting(limit) | {"faults": script.faults}
    results["checkers"] = _checkers(valid, script, evidence)
    acquires = [c.outcome for c in history.calls("acquire")]
    counted = {f"acquires_{kind}": acquires.count(kind) for kind in ("ok", "fail", "info")}
    results["stats"] = {"operations": len(history.calls()), **counted, "virtual_seconds": limit, "real_seconds": 0.6}
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")


def _evidence(first: Entry, second: Entry) -> Entry:
    holds = [_held(first), _held(second)]
    start, end = holds[1]["from_ns"], min(holds[0]["until_ns"], holds[1]["until_ns"])
    length = (end - start) / SECOND
    sentence = (
        f"c{holds[0]['client'][1:]} and {holds[1]['client']} both held k0 for {length:.3f} s, from "
        f"{(start - START_NS) / SECOND:.3f} s: the first lease was still valid by the client's clock, yet n2, n3 "
        f"and n5, whose clocks had jumped 12 s ahead, had expired it."
    )
    where = {"from_ns": start, "until_ns": end, "blame": "clock"}
    return {"kind": "overlap", "key": "k0", "sentence": sentence, **where, "involved": holds}


def _held(hold: Entry) -> Entry:
    asked, acquired, released = hold["asked"], hold["acquired"], hold["released"]
    start = acquired["at"]
    times = {"from_ns": start, "until_ns": released["at"], "lease_end_ns": start + round(1.97 * SECOND)}
    indices = [asked["index"], acquired["index"], released["index"]]
    who = {"f": "hold", "client": hold["client"], "process": hold["process"], "key": "k0"}
    return {**who, **times, "fence": hold["fence"], "ended": "released", "indices": indices}


def _interleaved(first: Entry, second: Entry) -> Entry:
    """The later hold's write comes between the earlier one's read and write."""
    calls = [_called(first, "write"), _called(second, "write")]
    where = {"from_ns": calls[1]["from_ns"], "until_ns": calls[0]["until_ns"], "blame": "service"}
    sentence = f"{second['client']} wrote k0 between the read and the write of {first['client']}: its write was lost."
    return {"kind": "interleaved", "key": "k0", "sentence": sentence, **where, "involved": calls}


def _called(hold: Entry, f: str) -> Entry:
    asked, done = hold[f]
    who = {"f": f, "key": "k0", "client": hold["client"], "process": hold["process"]}
    times = {"from_ns": asked["at"], "until_ns": done["at"]}
    said = {"invoked": asked["value"], "returned": done["value"], "outcome": "ok"}
    return {**who, **times, **said, "indices": [asked["index"], done["index"]]}


def _verdict(valid: bool | None, evidence: list[Entry]) -> Entry:
    words = {False: "violation found", True: "valid", None: "unknown"}
    summaries = {
        True: "No two clients held k0 at the same time, although the clocks of n2, n3, n4 and n5 were moved by up to "
        "12 s. Every lock that was granted was released by its holder.",
        None: "Nothing went wrong, but nothing was put to the test either: the pause of c4 was injected and not "
        "observed. A run without an observed fault says nothing about the lock.",
    }
    story = summaries.get(valid) or (
        f"{evidence[0]['sentence']} It happened {len(evidence)} times. Redlock counts on clocks that advance alike; "
        "this run broke that assumption."
    )
    because = ["the fault client-pause on c4 was injected, but never observed"] if valid is None else []
    return {"schema": 1, "valid": valid, "verdict": words[valid], "summary": story, "unknown_because": because}


def _setting(limit: float) -> Entry:
    cluster = {"backend": "sim", "kind": "redis-independent", "reason": "no engine answers on the docker socket"}
    plan = {"lock": "redlock", "ttl": TTL, "hold": 0.1, "discipline": "trusting", "fencing": "off", "workload": "mutex"}
    return {
        "lock": "redlock",
        "lock_title": "Redlock over five independent Redis servers",
        "lock_safety": "E",
        "seed": 7,
        "started_at": "2026-11-21T04:00:00Z",
        "command": "harness run redlock --nemesis clock-jump --seed 7",
        "replay": "harness replay store/redlock/20261121T040000Z-7",
        "cluster": cluster | {"servers": SERVERS, "clients": CLIENTS},
        "plan": plan | {"clients": 5, "keys": 1, "time_limit": limit},
        "versions": {"harness": "0.1.0", "python": "3.11.7", "redis": "8.1.0"},
        "fencing_note": "All three stale writes carried a fence lower than one the resource had already seen. With "
        "fencing on, the resource would have rejected them; the overlap of holds itself would remain.",
    }


def _checkers(valid: bool | None, script: Script, evidence: list[Entry]) -> Entry:
    holds = len(script.holds)
    bad = "Two clients held the same key at the same time." if evidence else "No two holds of one key overlap."
    return {
        "mutual-exclusion": {
            "valid": valid,
            "explanation": bad if valid is not None else "No overlap, but no fault was observed to take effect.",
            "evidence": evidence,
            "stats": {"holds": holds, "keys": 1, "contended": holds - 3},
        },
        "ownership": {"valid": True, "explanation": "Every release ended the releasing client's own hold."},
        "resource": {
            "valid": not evidence,
            "explanation": "A write was lost." if evidence else "Every critical section ran alone.",
            "evidence": [_interleaved(*pair) for pair in script.overlaps[-1:]],
        },
        "fairness": {"valid": None, "explanation": "redlock promises no queue; nothing to check.", "evidence": []},
    }


def _others(folder: Path) -> None:
    plan = 'lock = "redlock"\nseed = 7\nttl = "2s"\nhold = "100ms"\nclients = 5\nnodes = 5\n\n[[fault]]\n'
    (folder / "plan.toml").write_text(
        plan + 'fault = "clock-jump"\nhosts = ["n2", "n3", "n5"]\nby = "12s"\nat = 13.5\nfor = 3.9\n'
    )
    (folder / "logs").mkdir(exist_ok=True)
    for server in SERVERS:
        lines = [f"{i:6.3f} {server} * Ready to accept connections <tcp port 6379> & waiting" for i in range(12)]
        (folder / "logs" / f"{server}.log").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    print(write(Path(sys.argv[2]), sys.argv[1]))
