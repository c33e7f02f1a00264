"""Random requests to etcd's v2 API, and a client whose answers can be compared: indexes are relative to the start."""

from __future__ import annotations

import http.client
import json
from random import Random
from typing import Any, Final
from urllib.parse import urlencode

from harness.fidelity.members import Address
from harness.fidelity.processes import PATIENCE_S

LONG_S: Final = 1000
"""ttl that does not end during a sequence."""
KEYS: Final = "abc"
NO_KEY: Final = 404
V2Request = tuple[str, str, tuple[tuple[str, str], ...]]
"""Method, key and fields; ``+N`` as an index is N above the index at the start."""


def random_request(rng: Random) -> V2Request:
    key, value = rng.choice(KEYS), rng.choice("xyz")
    condition: dict[str, str] = rng.choice([
        {}, {"prevExist": "false"}, {"prevExist": "true"}, {"prevValue": rng.choice("xyz")},
        {"prevValue": rng.choice("xyz"), "prevExist": "true"}, {"prevIndex": f"+{rng.randint(1, 40)}"},
        {"prevValue": rng.choice("xyz"), "prevIndex": f"+{rng.randint(1, 40)}"},
    ])  # fmt: skip
    ttl: dict[str, str] = rng.choice([{}, {"ttl": str(LONG_S)}])
    wrong = rng.choice([
        {"ttl": "2.0"}, {"ttl": "soon"}, {"prevIndex": "x"}, {"prevValue": ""}, {"prevExist": "maybe"},
        {"refresh": "true"}, {"refresh": "true", "ttl": str(LONG_S), "value": ""},
        {"refresh": "true", "prevExist": "true"},
    ])  # fmt: skip
    method, fields = rng.choice([
        ("PUT", {"value": value, **condition, **ttl}), ("PUT", {"value": value, **condition, **ttl}),
        ("PUT", {"value": value, "prevExist": "false", **ttl}), ("DELETE", condition),
        ("PUT", {"refresh": "true", "ttl": str(LONG_S), **condition}),
        ("DELETE", {"prevValue": value}), ("GET", {}), ("GET", {"quorum": "true"}),
        ("PUT", {"value": value, **wrong}), ("PUT", {"refresh": "true", "prevExist": "true"}),
    ])  # fmt: skip
    return method, key, tuple(fields.items())


class V2Client:
    """Sends requests to one member over one connection."""

    def __init__(self, address: Address) -> None:
        self.move(address)
        for key in KEYS:
            self._ask("DELETE", key, {})
        self._base: int = self._ask("GET", KEYS[0], {})[1]["index"]
        self._gaps: list[tuple[int, int]] = []
        """Indexes after which etcd wrote something itself, and the number of its writes."""

    def move(self, address: Address) -> None:
        """Continue on another connection."""
        self._connection = http.client.HTTPConnection(*address, timeout=PATIENCE_S)

    def index(self) -> int:
        """Return the index of the last change, relative to the start."""
        return self._relative_index(self._last_index())

    def set_index(self, index: int) -> None:
        """Count from ``index``, whatever etcd has written itself since: each member's start writes its addresses."""
        own = self.index() - index
        self._gaps.append((self._last_index() - own, own))

    def _last_index(self) -> int:
        return self._ask("GET", KEYS[0], {"quorum": "true"})[2]

    def _relative_index(self, index: int) -> int:
        return index - self._base - sum(own for after, own in self._gaps if index > after)

    def _absolute_index(self, index: int) -> int:
        absolute = self._base + index
        for after, own in self._gaps:
            absolute += own if absolute > after else 0
        return absolute

    def close(self) -> None:
        self._connection.close()

    def send(self, method: str, key: str, fields: tuple[tuple[str, str], ...]) -> Any:
        absolute = {name: str(self._absolute_index(int(v))) if v.startswith("+") else v for name, v in fields}
        return self._relative(*self._ask(method, key, absolute))

    def exists(self, key: str) -> bool:
        return self._ask("GET", key, {"quorum": "true"})[0] != NO_KEY

    def _ask(self, method: str, key: str, fields: dict[str, str]) -> tuple[int, dict[str, Any], int]:
        form = urlencode(fields)
        path = f"/v2/keys/{key}"
        if method == "PUT":
            header = {"Content-Type": "application/x-www-form-urlencoded"}
            self._connection.request(method, path, form, header)
        else:
            self._connection.request(method, f"{path}?{form}")
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read()), int(answer.headers["X-Etcd-Index"])

    def _relative(self, status: int, body: dict[str, Any], index: int) -> Any:
        """Make indexes relative to the start and drop times, because two clusters differ in both."""
        if "errorCode" in body:
            cause = " ".join(self._since(word) for word in body["cause"].split())
            return (
                status,
                body["errorCode"],
                body["message"],
                cause,
                body["index"] and self._relative_index(body["index"]),
            )
        nodes = [self._node(body.get(name)) for name in ("node", "prevNode")]
        return status, body["action"], nodes, self._relative_index(index)

    def _since(self, word: str) -> str:
        bare = word.strip("[]")
        return word.replace(bare, f"+{self._relative_index(int(bare))}") if bare.isdigit() else word

    def _node(self, node: dict[str, Any] | None) -> Any:
        if node is None:
            return None
        kept = {name: value for name, value in node.items() if name != "expiration"}
        for name in ("modifiedIndex", "createdIndex"):
            kept[name] = self._relative_index(kept[name])
        if kept.get("ttl", 0) > LONG_S / 2:
            kept["ttl"] = LONG_S
        return {**kept, "ends": "expiration" in node}
