"""Distributed locks, one file per lock, written as a user would with the service's client library.

``base`` is the interface between a lock and the harness, ``catalogue`` finds locks by name, and ``thirdparty`` adapts
unmodified locks of libraries.
"""
