"""Loss of a host in the middle of a run: note which, when and how, and blame it for the errors that follow."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from functools import partial

from harness.errors import HarnessError, MachineLost

from .connection import HostConnection
from .preparation import HostFailed


class LossMethods:
    """Mixin that implements :class:`harness.clusters.abilities.hosts.MachineLosses`."""

    _machines: Mapping[str, HostConnection]

    def __init__(self) -> None:
        super().__init__()
        self._began_ns: int | None = None
        self._loss = ""

    def lost(self) -> str:
        """See :class:`harness.clusters.abilities.hosts.MachineLosses`."""
        return self._loss

    def _watch_losses(self) -> None:
        """Note from now on which host is lost first."""
        for name, host in self._machines.items():
            host.watch(partial(self._note_loss, name))

    def _ignore_losses(self) -> None:
        for host in self._machines.values():
            host.watch(lambda: None)

    def _note_loss(self, name: str) -> None:
        when = "before the run began"
        if self._began_ns is not None:
            when = f"{(time.monotonic_ns() - self._began_ns) / 1e9:.1f} s after the start of the run"
        self._loss = self._loss or f"the host {name} was lost {when}: {self._machines[name].loss()}"

    @contextlib.contextmanager
    def _loss_blamed(self) -> Iterator[None]:
        """Replace an error that follows from the loss of a host: by MachineLost in the run, by HostFailed before it."""
        try:
            yield
        except HarnessError as error:
            if not self._loss:
                raise
            raise (HostFailed if self._began_ns is None else MachineLost)(self._loss) from error
