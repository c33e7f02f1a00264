"""A workload that raises. The harness must report the error that ends a client program."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.worker.client import Client


class Broken:
    name: ClassVar = "broken"

    @staticmethod
    def stock(settings: Any, duration: float) -> dict[str, int]:
        return {}

    @staticmethod
    def run(client: Client) -> None:
        raise ValueError("broken on purpose")
