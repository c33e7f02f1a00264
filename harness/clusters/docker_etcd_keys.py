"""A look at a lock's key on a real etcd member."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any, Final

from ..history.lock_keys import Sight, owner_text
from .docker_keys import Blind
from .docker_kinds import ASK

FIRST: Final = {"serializable": True, "limit": 1, "sort_order": "ASCEND", "sort_target": "CREATE"}
"""The oldest key of a range, as this member has it."""


class EtcdEye:
    """Asks the member's JSON gateway. The holder is whose key under ``KEY/`` is oldest (etcd's own mutex), or whose
    value is in ``/locks/KEY`` (python-etcd3's lock). A lease's end is not looked up: only the leader knows it, in
    seconds."""

    def __init__(self, address: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(address, port, timeout=ASK)

    def look(self, key: str) -> Sight | None:
        queued = self._first({"key": _bytes(f"{key}/"), "range_end": _bytes(f"{key}0")})  # "0" comes after "/"
        if queued is not None:
            return Sight(_text(queued["key"]).removeprefix(f"{key}/"))
        held = self._first({"key": _bytes(f"/locks/{key}")})
        return None if held is None else Sight(_text(held.get("value", "")))

    def _first(self, keys: dict[str, str]) -> dict[str, Any] | None:
        try:
            self._connection.request("POST", "/v3/kv/range", json.dumps({**keys, **FIRST}))
            answer = self._connection.getresponse()
            told = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Blind from error
        if answer.status != http.HTTPStatus.OK:
            raise Blind(str(answer.status))
        found: list[dict[str, Any]] = told.get("kvs", [])
        return found[0] if found else None

    def close(self) -> None:
        self._connection.close()


def _bytes(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(encoded: str) -> str:
    return owner_text(base64.b64decode(encoded))
