"""A lock that needs a standard library that gevent has replaced."""

from __future__ import annotations

import gevent.monkey

gevent.monkey.patch_all()

from .with_gevent import Lock  # noqa: E402, F401 - gevent asks to be first
