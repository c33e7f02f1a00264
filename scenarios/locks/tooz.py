"""tooz's lock on memcached, used in a way that its heartbeat does not keep a lock that its holder has released."""

from __future__ import annotations

import contextlib
import time
from typing import ClassVar, Final

from harness.lock_impls.base import Indeterminate
from harness.lock_impls.origins import use_of
from harness.lock_impls.thirdparty.tooz_memcached import ToozMemcached

PATIENCE_S: Final = 10.0
PAUSE_S: Final = 0.2


class ReleasesAgain(ToozMemcached):
    """tooz-heartbeat-forever, cured: a release without an answer is repeated until there is one."""

    origin: ClassVar = use_of(
        "tooz", "9.1.0", "a release that is repeated until it is answered", "tooz/drivers/memcached.py"
    )
    kinds: ClassVar = ("memcached",)

    def release(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(Indeterminate):
                super().release()
                return
            time.sleep(PAUSE_S)
        super().release()
