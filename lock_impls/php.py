"""What the locks of PHP libraries share (``docker/php``): their program's command, and texts of their descriptions."""

from __future__ import annotations

from typing import Final

RUN: Final = ("php", "/opt/locks/program.php")
LANGUAGE: Final = "PHP"
RUNTIME: Final = "php"
SYMFONY: Final = "symfony/lock 5.4.53"
MALKUSCH: Final = "malkusch/lock 2.2.1"
SYMFONY_PROMISES: Final = (
    "one holder until getRemainingLifetime() is over; isAcquired() is whether this object still holds the lock"
)
INITIAL_TTL: Final = 300
"""Seconds for which Symfony's ``save`` sets a key, before a second request of the same acquire sets the lock's ttl."""
INITIAL_EXPIRY: Final = (
    "expiry: after the ttl, or after initial_ttl if the holder dies between the two requests of its acquire"
)
SECONDS_OVERTIME_S: Final = 1.0
"""By how much a lease may outlast its ttl, because it is a whole number of seconds."""
