"""Values of Consul's HTTP API: durations as Go writes them, and sessions and keys in JSON."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

from .store import NS_PER_S, ConsulSession, KvEntry, Refused

LEAST_TTL_NS: Final = 10 * NS_PER_S
MOST_TTL_NS: Final = 86400 * NS_PER_S
LOCK_DELAY_NS: Final = 15 * NS_PER_S
MOST_LOCK_DELAY_NS: Final = 60 * NS_PER_S
BARE_SECONDS: Final = 1000
"""A LockDelay below this is in seconds, and not in ns."""
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


def parse_duration(text: str) -> int | None:
    """Return the ns of a duration such as ``1m30s`` or ``0.5s``; None if it is none."""
    if text == "0":
        return 0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(round(float(number) * _UNITS[unit]) for number, unit in parts)


def parse_session(body: bytes, session_id: str, node: str) -> ConsulSession:
    """Return the session that the body of a request describes. Names of fields match in any case, as in Go."""
    try:
        fields = {name.lower(): value for name, value in json.loads(body or b"{}").items()}
    except (ValueError, AttributeError) as error:
        raise Refused(f"Request decode failed: {error}", 400) from error
    behavior = fields.get("behavior") or "release"
    if behavior not in ("release", "delete"):
        raise Refused(f"Invalid Behavior setting '{behavior}'")
    ttl = fields.get("ttl") or ""
    ttl_ns = parse_duration(ttl) if ttl else 0
    if ttl_ns is None:
        raise Refused(f"Session TTL '{ttl}' invalid: time: invalid duration \"{ttl}\"")
    if ttl_ns and not LEAST_TTL_NS <= ttl_ns <= MOST_TTL_NS:
        raise Refused(f"Invalid Session TTL '{ttl_ns}', must be between [10s=24h0m0s]")
    return ConsulSession(
        session_id, fields.get("name") or "", fields.get("node") or node, ttl, ttl_ns,
        _lock_delay(fields.get("lockdelay")), behavior == "delete", 0,
    )  # fmt: skip


def _lock_delay(given: Any) -> int:
    if given is None:
        return LOCK_DELAY_NS
    found = parse_duration(given) if isinstance(given, str) else int(given)
    if found is None:
        raise Refused(f'Request decode failed: time: invalid duration "{given}"', 400)
    return found * NS_PER_S if found < BARE_SECONDS else found


def session_json(session: ConsulSession) -> dict[str, Any]:
    """Return the JSON object of a session."""
    return {
        "ID": session.id,
        "Name": session.name,
        "Node": session.node,
        "LockDelay": session.lock_delay_ns,
        "Behavior": "delete" if session.deletes else "release",
        "TTL": session.ttl,
        "NodeChecks": ["serfHealth"],
        "ServiceChecks": None,
        "CreateIndex": session.index,
        "ModifyIndex": session.index,
    }


def entry_json(key: str, entry: KvEntry) -> dict[str, Any]:
    """Return the JSON object of a key."""
    body: dict[str, Any] = {"LockIndex": entry.lock_index, "Key": key, "Flags": entry.flags}
    body["Value"] = base64.b64encode(entry.value).decode() if entry.value else None
    if entry.session:
        body["Session"] = entry.session
    return {**body, "CreateIndex": entry.create_index, "ModifyIndex": entry.modify_index}
