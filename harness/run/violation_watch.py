"""Notice two holders of a lock while its run goes on."""

from __future__ import annotations

from collections.abc import Callable

from harness.checkers.run_watch import RunWatch
from harness.history import Op

from .recorder import Recorder


class ViolationWatch:
    """Listens to ``recorder``. ``found`` is True from the entry on that shows two holders of a key; ``on_found`` is
    called at that entry. A run that is stopped has the verdict that it would have at its end. ``in_order`` says whether
    entries come in the order of time, as those of the simulator do."""

    def __init__(self, recorder: Recorder, *, in_order: bool, on_found: Callable[[], None] = lambda: None) -> None:
        self.found = False
        self._on_found = on_found
        self._watch = RunWatch(recorder.history.in_order, in_order=in_order)
        recorder.listeners.append(self._on_entry)

    def _on_entry(self, op: Op) -> None:
        if self.found:
            return
        self._watch.add(op)
        if self._watch.violation is not None:
            self.found = True
            self._on_found()
