"""A lock that connects with psycopg2."""

from __future__ import annotations

import psycopg2


class Lock:
    kinds = ("postgres",)

    def __init__(self, servers: list[tuple[str, int]]) -> None:
        (self.host, self.port), *_ = servers

    def acquire(self) -> bool:
        psycopg2.connect(host=self.host, port=self.port, user="harness", dbname="harness").close()
        return True

    def release(self) -> None: ...
