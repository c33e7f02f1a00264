"""Entries of the log of a client's sockets.

:mod:`harness.worker.socket_log` writes them, and :mod:`harness.trace.sockets` reads them. An entry is a list that
begins with its kind. Times are those of the history (ns).
"""

from __future__ import annotations

from typing import Any, Final

Entry = list[Any]
OPENED: Final = 0
"""Entry ``[OPENED, connection, local port, address of the server, its port]``, before the others of a connection."""
SENT: Final = 1
"""Entry ``[SENT, connection, time, size, process, place]``: ``size`` bytes are about to be sent at ``time``.
``process`` is that of the lock's call in progress, ``place`` the number of a place; -1 if there is none."""
RECEIVED: Final = 2
"""Entry ``[RECEIVED, connection, time, size]``: ``size`` bytes were received by ``time``."""
PLACE: Final = 3
"""Entry ``[PLACE, file, line, function]``: the next place; ``file`` is the name of a source."""
SOURCE: Final = 4
"""Entry ``[SOURCE, file, text]``: a source file, before the first place in it."""
