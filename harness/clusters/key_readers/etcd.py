"""Read the holder of a lock from one etcd member's own copy of the keys."""

from __future__ import annotations

import base64
import ssl
from typing import Any, Final

from harness.clusters.etcd_connection import EtcdConnection, EtcdUnanswered
from harness.clusters.key_watch import ANSWER_S, NoAnswer
from harness.history.lock_keys import KeyObservation, owner_text

FIRST: Final = {"serializable": True, "limit": 1, "sort_order": "ASCEND", "sort_target": "CREATE"}
"""Request for the oldest key of a range, from the member's own copy."""


class EtcdKeyReader:
    """Reads through the member's JSON gateway. The holder owns the oldest key under ``KEY/`` (etcd's own mutex), or is
    named by the value of ``/locks/KEY`` (python-etcd3's lock). The lease's expiry is not read: only the leader knows
    it, in whole seconds."""

    def __init__(
        self, address: str, port: int, login: tuple[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._connection = EtcdConnection(address, port, answer_s=ANSWER_S, login=login, tls=tls)

    def look(self, key: str) -> KeyObservation | None:
        queued = self._first({"key": _bytes(f"{key}/"), "range_end": _bytes(f"{key}0")})  # "0" comes after "/"
        if queued is not None:
            return KeyObservation(_text(queued["key"]).removeprefix(f"{key}/"))
        held = self._first({"key": _bytes(f"/locks/{key}")})
        return None if held is None else KeyObservation(_text(held.get("value", "")))

    def _first(self, keys: dict[str, str]) -> dict[str, Any] | None:
        try:
            response = self._connection.ask("POST", "/v3/kv/range", {**keys, **FIRST})
        except EtcdUnanswered as error:
            raise NoAnswer(str(error)) from error
        found: list[dict[str, Any]] = response.get("kvs", [])
        return found[0] if found else None

    def close(self) -> None:
        self._connection.close()


def _bytes(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(encoded: str) -> str:
    return owner_text(base64.b64decode(encoded))
