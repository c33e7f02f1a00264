"""A member of an etcd that the user runs."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, Final

from harness.clusters.key_readers.etcd import EtcdKeyReader
from harness.clusters.key_watch import KeyReader
from harness.clusters.servers.adapter import PATIENCE_S, PREFIX, SHOWN, NoAnswerError, OwnServer

PAGE: Final = 10_000
"""Number of keys in one answer."""
_END: Final = "\0"
"""As the end of a range: all keys from its begin on (etcd API, ``RangeRequest``)."""


class EtcdServer(OwnServer):
    """See :class:`harness.clusters.servers.adapter.OwnServer`. It is asked through its JSON gateway."""

    HELLO: ClassVar[bytes] = b"GET /version HTTP/1.1\r\nHost: member\r\nX-Filler: ".ljust(60, b"x") + b"\r\n\r\n"

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            found: Any = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswerError(f"the etcd at {self.host}:{self.port}: {error}") from error
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK or not isinstance(found, dict):
            raise NoAnswerError(f"the etcd at {self.host}:{self.port}: {path}: {answer.status}: {found}")
        return found

    def version(self) -> str:
        return f"etcd {self._ask('GET', '/version').get('etcdserver', '')}"

    def identity(self) -> str:
        header = self._ask("POST", "/v3/maintenance/status", {}).get("header", {})
        return f"{header.get('cluster_id', '')} {header.get('member_id', '')}"

    def _keys(self) -> Iterator[str]:
        """Yield all keys as base64 text."""
        begin = base64.b64encode(b"\0").decode()
        while True:
            fields = {"key": begin, "range_end": base64.b64encode(_END.encode()).decode()}
            answer = self._ask("POST", "/v3/kv/range", {**fields, "keys_only": True, "limit": PAGE})
            found = [str(entry["key"]) for entry in answer.get("kvs", [])]
            yield from found
            if not answer.get("more") or not found:
                return
            begin = base64.b64encode(base64.b64decode(found[-1]) + b"\0").decode()

    def foreign_keys(self) -> list[str]:
        names = (base64.b64decode(key).decode(errors="replace") for key in self._keys())
        return [name for name in names if name.removeprefix("/locks/").startswith(PREFIX)][:SHOWN]

    def remove_keys(self, run: str) -> int:
        found = [key for key in self._keys() if run.encode() in base64.b64decode(key)]
        for key in found:
            self._ask("POST", "/v3/kv/deleterange", {"key": key})
        return len(found)

    def key_reader(self) -> Callable[[], KeyReader]:
        return partial(EtcdKeyReader, self.host, self.port)
