"""A workload that raises: what a client program dies of must be told."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.workloads.client import Client


class Broken:
    name: ClassVar = "broken"

    @staticmethod
    def stock(settings: Any, duration: float) -> dict[str, int]:
        return {}

    @staticmethod
    def run(client: Client) -> None:
        raise ValueError("broken on purpose")
