"""etcd: one member, or a cluster of three."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec

from harness.fidelity.comparison import ServerPair
from harness.fidelity.processes import missing_program


class EtcdComparison:
    """See :class:`harness.fidelity.comparison.Server`."""

    def __init__(self, members: int = 1) -> None:
        self.name = "etcd" if members == 1 else f"etcd-{members}"
        self._members = members

    def missing(self) -> str:
        if find_spec("etcd3") is None:
            return "etcd3 is not installed: pip install 'lock-harness[etcd]'"
        return missing_program("etcd", "etcd-server")

    def start(self) -> AbstractContextManager[ServerPair]:
        from .pair import start

        return start(self._members)
