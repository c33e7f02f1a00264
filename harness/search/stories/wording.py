"""Write the text of each step of a story, with its effect on the servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.faults.catalogue import fault_of
from harness.history import Call
from harness.wording import as_sentence, listed

from .effects import Effects
from .faults import late, occasion
from .parts import CallPart, FaultPart, LateMessagePart, Part, StoryContext

LONG_NS: Final = 500_000_000
"""A story mentions waits longer than this (ns)."""
NOTICED_NS: Final = 10_000_000
"""Shorter intervals (ns) are described as one moment."""
STUCK: Final = ("deadlock", "stuck")


class StoryWriter:
    """Writer of the texts of a story's parts, which are in the order of time."""

    def __init__(self, scene: StoryContext, parts: Sequence[Part]) -> None:
        self._scene = scene
        self._parts = parts
        self._key = scene.violation.key or "the lock"
        start = scene.history.nemesis("start")
        self._servers: list[str] = start[0].value["servers"] if start else []
        self._effects = Effects(scene, parts, self._on)

    def texts(self) -> list[str]:
        return [self._text(number, part) for number, part in enumerate(self._parts)]

    def _text(self, number: int, part: Part) -> str:
        if isinstance(part, FaultPart):
            text = self._strike(part)
        elif isinstance(part, LateMessagePart):
            text = late(part.delay)
        else:
            assert isinstance(part, CallPart)
            text = self._act(part)
        before, after = self._effects.before.get(number, []), self._effects.after.get(number, [])
        reason = f" ({', '.join(before)})" if before else ""
        effect = f"{';' if ':' in text else ':'} {', '.join(after)}" if after else ""
        back = self._release(part) if isinstance(part, CallPart) and part.granted else ""
        return f"{text}{reason}{effect}{back}"

    def _on(self, hosts: Sequence[str]) -> str:
        """Return `` on n1 and n2``; empty if the cluster has only one server."""
        return f" on {listed(hosts)}" if len(self._servers) > 1 and hosts else ""

    # Faults.

    def _strike(self, part: FaultPart) -> str:
        over = self._over(part)
        ended = "" if over is None else f" until {self._scene.at(over)}"
        again = f" (time {part.times})" if part.times > 1 else ""
        fault = fault_of(part.record)
        when = "" if fault.tells_moment else occasion(part.spec, part.record, self._striker(part))
        return f"{fault.story(part.record, ended)}{when}{again}"

    def _over(self, part: FaultPart) -> int | None:
        """Return the end of the fault (ns), if it is before the violation or the plan gives it.

        For a host that died, return it only if the host was back before the violation.
        """
        record, planned = part.record, part.spec.for_
        if record.healed_ns is None:
            return None
        end = record.healed_ns if planned is None else min(record.healed_ns, part.at + int(planned * 1e9))
        dies = "dead" in record.observed.get("state", {}).values() or "died" in record.observed
        return end if end <= self._scene.moment or (planned is not None and not dies) else None

    def _striker(self, part: FaultPart) -> str:
        """Return the client whose event triggered the fault."""
        if part.spec.client is not None:
            return f"c{part.spec.client}"
        event, _, phase = (part.spec.on or "").partition(":")
        before = self._scene.history[: part.index]
        awaited = (op.node for op in reversed(before) if op.f == event and op.type == (phase or "ok"))
        return next(awaited, None) or ""

    # Acts.

    def _act(self, act: CallPart) -> str:
        f, who = act.call.invoke.f, act.client
        if f == "acquire":
            return self._grant(act) if act.granted else self._unsuccessful(act)
        if f == "release":
            return f"{who} releases {act.call.invoke.key}{self._no_answer(act.call)}"
        token = self._token(act.call.invoke.value)
        return (
            f"{who} {_EFFECTS.get(f, f)} {act.call.invoke.key}{token}{self._based_on(act)}{self._no_answer(act.call)}"
        )

    def _token(self, value: Any) -> str:
        """Return a clause about the fencing token, if the violation is about tokens."""
        about = self._scene.violation.kind in ("token-fell", "token-repeated", "stale-accepted")
        return f" with token {value['fence']}" if about and value and value.get("fence") is not None else ""

    def _grant(self, act: CallPart) -> str:
        if act.call.done is not None and act.call.done.value.get("acquired") is False:
            return f"{act.client} enters the body of `with` for {act.call.invoke.key}, although its acquire had failed"
        hosts = self._scene.made_key(act.call)
        until = self._until(act, hosts)
        token = self._token(act.call.done.value) if act.call.done is not None else ""
        again = " again" if self._scene.nested(act.call) else ""
        text = f"{act.client} acquires {act.call.invoke.key}{again}{token}{self._on(hosts)}{until}"
        waited = self._scene.violation.kind in (*STUCK, "slow-try") and act.at - act.call.invoke.time > LONG_NS
        return f"{text}, which it requested at {self._scene.at(act.call.invoke.time)}" if waited else text

    def _until(self, act: CallPart, hosts: list[str]) -> str:
        """Return a clause about the lease's end, by the single server's clock, or as granted if no key is known."""
        done = act.call.done
        if done is None:
            return ""
        if not self._scene.keys.changes:
            valid = done.value.get("valid_for")
            return "" if valid is None else f" with a lease until {self._scene.at(done.time + int(valid * 1e9))}"
        holder = self._scene.keys.holders(done.time).get(hosts[0]) if len(hosts) == 1 else None
        if holder is None or holder.until is None or holder.client != act.client:
            return ""
        return f" with a lease until {self._scene.at(holder.until)}"

    def _release(self, act: CallPart) -> str:
        """Return a clause about the release of this hold, or the end of its process, if that happened and is no step of
        its own."""
        exit_ = self._scene.exit_after(act.call)
        if exit_ is not None:
            threads = listed(sorted(set(exit_.value["threads"])))
            stays = f", and {threads} goes on" if threads else ""
            return f"; {act.client}'s main thread ends by {exit_.value['by']} at {self._scene.at(exit_.time)}{stays}"
        release = self._scene.release_of(act.call)
        if release is None or release.invoke.time > self._parts[-1].at:
            return ""
        told = any(
            isinstance(part, CallPart) and part.client == act.client
            and act.call.invoke.index < part.call.invoke.index <= release.invoke.index
            for part in self._parts
        )  # fmt: skip
        if told:
            return ""
        return f"; {act.client} releases it at {self._scene.at(release.invoke.time)}{self._no_answer(release)}"

    def _no_answer(self, call: Call) -> str:
        if call.outcome == "ok":
            return ""
        if call.done is None:
            return " and gets no answer"
        error = (call.done.error or "").partition(":")[0]
        return f" and gets an error ({error})" if error else ""

    def _unsuccessful(self, act: CallPart) -> str:
        who, key, count = act.client, act.call.invoke.key, len(act.calls)
        made = self._scene.made_key(act.call)
        if made and act.call.outcome == "info":
            reply = ":" if act.call.done is None else f"{self._no_answer(act.call)}, but"
            return f"{who} requests {key}{reply} {who} now owns the key{self._on(made)}"
        begun, ended = act.call.invoke.time, min(act.until, self._scene.moment)
        if count == 1 and (act.call.done is None or act.until > self._scene.moment):
            return f"{who} requests {key} and waits"
        times = f" {count} times" if count > 1 else ""
        until = f" until {self._scene.at(ended)}" if ended - begun > NOTICED_NS else ""
        if act.at - begun <= NOTICED_NS:
            return f"{who} requests {key}{times}{until} without success{self._owners(act)}"
        span = f"{times[1:]}, since {self._scene.at(begun)}" if times else f"since {self._scene.at(begun)}"
        return f"{who} keeps requesting {key} ({span}){until} without success{self._owners(act)}"

    def _owners(self, act: CallPart) -> str:
        """Return a clause about the owners of the key when the client last requested it."""
        moment = min(act.calls[-1].invoke.time, self._scene.moment)
        holders = self._scene.keys.holders(moment)
        by_client: dict[str, list[str]] = {}
        for host, holder in holders.items():
            by_client.setdefault(holder.client or "an unknown client", []).append(host)
        if by_client:
            return ": " + ", ".join(f"{client} owns the key{self._on(hosts)}" for client, hosts in by_client.items())
        free = self._scene.keys.free_since(moment)
        return "" if free is None else f", although the key has been free since {self._scene.at(free)}"

    def _based_on(self, act: CallPart) -> str:
        """Return a clause about the read on which a write is based."""
        if act.call.invoke.f not in ("write", "cas", "take"):
            return ""
        reads = [call for call in self._scene.section(act.call) if call.invoke.f == "read" and call.outcome == "ok"]
        done = reads[-1].done if reads else None
        return "" if done is None else f", based on its read at {self._scene.at(done.time)}"


_EFFECTS: Final = {
    "write": "writes",
    "cas": "writes",
    "take": "sells a unit of",
    "mark": "processes",
    "add": "adds to",
    "read": "reads",
    "extend": "extends the lease of",
}


def ending(scene: StoryContext) -> str:
    """Return the sentence about the harm at the end of a story, and the discipline of the clients if it is not the
    usual one."""
    checking = " All clients check the lock before each write." if scene.trial.plan.discipline == "checking" else ""
    return _harm(scene) + checking


def _harm(scene: StoryContext) -> str:
    violation = scene.violation
    at = scene.at
    who = [item["client"] for item in violation.involved]
    key, begin, end = violation.key, at(violation.from_ns), at(violation.until_ns)
    if violation.kind == "overlap":
        return f"Both hold {key} from {begin} to {end}."
    if violation.kind == "lost-update" and len(who) == 3:
        return f"{who[2]} has overwritten {who[1]}'s {key}: {who[1]}'s update is lost."
    if violation.kind == "interleaved" and len(who) == 3:
        return f"{who[2]} has overwritten {who[1]}'s {key}: their critical sections are interleaved."
    if violation.kind == "foreign-release":
        return f"{who[0]}'s release has ended {who[1]}'s hold of {key}, and {who[2]} has acquired it."
    if violation.kind == "stale-accepted":
        newer, stale = violation.involved
        old, new = stale["invoked"]["fence"], newer["invoked"]["fence"]
        return f"{who[1]}'s {stale['f']} with token {old} is accepted, though {who[0]} had used token {new}."
    if violation.kind == "token-repeated":
        return f"Both acquired {key} with the same token, {violation.involved[0]['fence']}."
    if violation.kind in STUCK:
        return f"Nobody holds {key} from {begin} to {end}, but requests for it fail."
    if violation.kind == "overstayed":
        held = violation.involved[0]
        span = f"from {at(held['from_ns'])} to {at(held['until_ns'])}"
        return f"{who[0]} holds {key} {span}, and no other client can acquire it."
    return as_sentence(violation.sentence)
