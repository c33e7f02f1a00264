"""Locks whose client libraries have sockets of their own, in libpq."""
