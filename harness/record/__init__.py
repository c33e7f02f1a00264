"""Record what the locks of a running application do, as a history that ``harness check`` judges.

    from harness.record import Recorder

    recorder = Recorder("recordings")
    lock = recorder.wrap(redis.lock.Lock(client, "orders", timeout=10), key="orders", valid_for=9.9)
    with lock:
        ...

This package uses the standard library only, and nothing else of harness. See docs/recording.md.
"""

from __future__ import annotations

from .recorder import Recorder
from .wrapping import AsyncRecordedLock, RecordedLock

__all__ = ["AsyncRecordedLock", "RecordedLock", "Recorder"]
