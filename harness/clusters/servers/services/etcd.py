"""A member of an etcd that the user runs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, ClassVar, Final

from harness.clusters.etcd_connection import EtcdConnection, EtcdUnanswered
from harness.clusters.key_readers.etcd import EtcdKeyReader
from harness.clusters.key_watch import KeyReader
from harness.clusters.servers.adapter import PATIENCE_S, PREFIX, SHOWN, NoAnswerError, OwnServer
from harness.clusters.servers.tls import TlsBegin

PAGE: Final = 10_000
"""Number of keys in one answer."""
_END: Final = "\0"
"""As the end of a range: all keys from its begin on (etcd API, ``RangeRequest``)."""


_HINTS: Final = {
    "user name is empty": "; it needs a user and a password: etcd://USER:$NAME@HOST",
    "permission denied": "; the user needs the permission readwrite for all keys",
}
"""Additions to errors of a member about logins."""


def _frame(kind: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2 about the whole connection (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind]) + b"\0" * 5 + payload


class EtcdServer(OwnServer):
    """See :class:`harness.clusters.servers.adapter.OwnServer`. It is asked through its JSON gateway."""

    # The begin of a connection of HTTP/2, which a member answers with its settings: three settings and a window, 64
    # bytes together.
    HELLO: ClassVar[bytes] = (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + _frame(4, b"".join(name.to_bytes(2, "big") + b"\0\0\xff\xff" for name in (3, 4, 5)))
        + _frame(8, b"\0\0\0\1")
    )
    TLS_BEGIN: ClassVar[TlsBegin] = "http2"

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            tls = self.address.tls.context() if self.address.tls else None
            login = self.address.login
            with closing(EtcdConnection(self.host, self.port, answer_s=PATIENCE_S, login=login, tls=tls)) as connection:
                return connection.ask(method, path, body)
        except EtcdUnanswered as error:
            hint = next((hint for text, hint in _HINTS.items() if text in str(error)), "")
            raise NoAnswerError(f"the etcd at {self.host}:{self.port}: {error}{hint}") from error

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
        tls = self.address.tls.context() if self.address.tls else None
        return partial(EtcdKeyReader, self.host, self.port, self.address.login, tls)
