"""A connection to the JSON gateway of one member of etcd, for the harness itself (etcd's manual, "gRPC gateway")."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any, Final

LOGIN_S: Final = 2.0
"""Time limit of a login, seconds. The member computes a slow hash of the password for each."""


class EtcdUnanswered(Exception):
    """The member did not answer, or refused the request."""


class EtcdConnection:
    """A connection that sends one request after another; ``answer_s`` is the time limit of an answer. With ``login``
    (user and password) it logs in before the first request, and ``tls`` is for a member with TLS."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        answer_s: float,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answer_s = answer_s
        self._login = login
        self._headers: dict[str, str] = {}
        limit_s = max(answer_s, LOGIN_S) if login else answer_s
        self._connection = (
            http.client.HTTPSConnection(host, port, timeout=limit_s, context=tls)
            if tls
            else http.client.HTTPConnection(host, port, timeout=limit_s)
        )

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a request. Raises EtcdUnanswered."""
        if self._login is not None:
            user, password = self._login
            token = self._exchange("POST", "/v3/auth/authenticate", {"name": user, "password": password})["token"]
            self._headers["Authorization"] = str(token)
            self._login = None
            self._connection.sock.settimeout(self._answer_s)
        return self._exchange(method, path, body)

    def _exchange(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
            answer = self._connection.getresponse()
            found: Any = json.loads(answer.read())
        except ssl.SSLError as error:
            raise EtcdUnanswered(f"TLS: {error}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EtcdUnanswered(f"{error}") from error
        if answer.status != http.HTTPStatus.OK or not isinstance(found, dict):
            reason = found.get("error", found) if isinstance(found, dict) else found
            raise EtcdUnanswered(f"{path}: {answer.status}: {reason}")
        return found

    def close(self) -> None:
        self._connection.close()
