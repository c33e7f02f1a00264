"""A lock that connects with psycopg."""

from __future__ import annotations

import psycopg


class Lock:
    kinds = ("postgres",)

    def __init__(self, servers: list[tuple[str, int]]) -> None:
        (self.host, self.port), *_ = servers

    def acquire(self) -> bool:
        psycopg.connect(host=self.host, port=self.port, user="harness", dbname="harness").close()
        return True

    def release(self) -> None: ...
