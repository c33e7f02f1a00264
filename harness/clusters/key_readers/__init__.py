"""Readers of locks' keys on real servers, one module a service; see :class:`harness.clusters.key_watch.KeyReader`."""
