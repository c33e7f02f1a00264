"""etcd's own Lock RPC, which waits in the queue on the server, called through etcd's JSON gateway.

Source: etcd 3.4.23, etcdserver/api/v3lock/lock.go. The
simulated etcd has no such service.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
from typing import Any, ClassVar, Final, Self

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from harness.lock_impls.etcd_client import ANSWER_S, whole_seconds
from harness.lock_impls.origins import use_of

RENEWALS: Final = 4
"""Number of renewals in a lease's time to live."""


class LockRpc:
    """etcd-11456: a lease of its own for each try, which a thread keeps alive, and one request that waits.

    The server's Lock puts the key and waits for the older ones. It does not look whether its own key is still there.
    """

    origin: ClassVar = use_of(
        "etcd", "3.4.23", "a lease for each try, which a thread keeps alive", "etcdserver/api/v3lock/lock.go"
    )
    kinds: ClassVar = ("etcd",)

    def __init__(self, address: tuple[str, int], key: str, ttl: float) -> None:
        self._address, self._name, self._ttl_s = address, key, whole_seconds(ttl)
        self._key = ""
        self._lease = ""
        self._ended = threading.Event()

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(endpoints.addresses[0], key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        self._lease = self._ask("lease/grant", {"TTL": self._ttl_s})["ID"]
        self._ended = threading.Event()
        threading.Thread(target=self._keep_alive, args=(self._lease, self._ended), daemon=True).start()
        name = base64.b64encode(f"/locks/{self._name}".encode()).decode()
        try:
            self._key = self._ask("lock/lock", {"name": name, "lease": self._lease}, timeout)["key"]
        except TimeoutError:
            self._end_lease()  # and with it the key in the queue
            return None
        return Grant()

    def release(self) -> None:
        self._ask("lock/unlock", {"key": self._key})
        self._end_lease()

    def _end_lease(self) -> None:
        self._ended.set()
        self._ask("lease/revoke", {"ID": self._lease})

    def _keep_alive(self, lease: str, ended: threading.Event) -> None:
        while not ended.wait(self._ttl_s / RENEWALS):
            try:
                self._ask("lease/keepalive", {"ID": lease})
            except (LockError, Indeterminate, TimeoutError):
                continue

    def _ask(self, path: str, request: dict[str, Any], timeout: float = ANSWER_S) -> Any:
        """Return the answer. Raises TimeoutError, LockError if etcd refuses, Indeterminate if the connection breaks."""
        connection = http.client.HTTPConnection(*self._address, timeout=timeout)
        try:
            connection.request("POST", f"/v3/{path}", json.dumps(request))
            answer = connection.getresponse()
            text = answer.read().decode()
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise Indeterminate(f"{path}: {error}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise LockError(f"{path}: {text.strip()}")
        return json.loads(text)
