"""Read the session that holds a lock's key from a Consul server."""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote

from harness.clusters.docker.kinds import ANSWER_S
from harness.clusters.key_watch import NoAnswer
from harness.history.lock_keys import KeyObservation


class ConsulKeyReader:
    """Reads the key through the HTTP API. The end of the session is not read: only the leader's timer knows it."""

    def __init__(self, address: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(address, port, timeout=ANSWER_S)

    def look(self, key: str) -> KeyObservation | None:
        try:
            self._connection.request("GET", f"/v1/kv/{quote(key)}?stale=true")
            answer = self._connection.getresponse()
            body = answer.read()
            if answer.status == http.HTTPStatus.NOT_FOUND:
                return None
            if answer.status != http.HTTPStatus.OK:
                raise NoAnswer(str(answer.status))
            (entry,) = json.loads(body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer from error
        session = entry.get("Session")
        return KeyObservation(session) if session else None

    def close(self) -> None:
        self._connection.close()
