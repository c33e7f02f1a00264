"""Requests of the control side to Kubernetes' API server. Its certificate is its own, so nobody can verify it."""

from __future__ import annotations

import http.client
import ssl
from functools import cache
from typing import Final

from harness.clusters.docker.kinds import ANSWER_S
from harness.clusters.kinds import ACCOUNT

TOKEN: Final = ACCOUNT
"""Bearer token of a user who may do everything."""
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def request(connection: http.client.HTTPSConnection, path: str) -> tuple[int, bytes]:
    """Return status and body of the answer to a GET. Raises OSError or HTTPException if there is none."""
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def connect(address: str, port: int) -> http.client.HTTPSConnection:
    """Return a connection that accepts any certificate."""
    return http.client.HTTPSConnection(address, port, timeout=ANSWER_S, context=_any_certificate())


@cache
def _any_certificate() -> ssl.SSLContext:
    """Return a context without certificates of authorities, which take tens of milliseconds to load."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
