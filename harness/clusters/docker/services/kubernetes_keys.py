"""Read the holder of a lock's Lease from Kubernetes' API server."""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote

from harness.clusters.key_watch import NoAnswer
from harness.history.lock_keys import KeyObservation

from .kubernetes_api import LEASES, connect, request


class LeaseReader:
    """Reads a Lease. Its end is not read: each candidate decides it by a clock of its own."""

    def __init__(self, address: str, port: int) -> None:
        self._connection = connect(address, port)

    def look(self, key: str) -> KeyObservation | None:
        try:
            status, body = request(self._connection, f"{LEASES}/{quote(key)}")
            if status == http.HTTPStatus.NOT_FOUND:
                return None
            if status != http.HTTPStatus.OK:
                raise NoAnswer(str(status))
            holder = json.loads(body)["spec"].get("holderIdentity")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer from error
        return KeyObservation(holder) if holder else None

    def close(self) -> None:
        self._connection.close()
