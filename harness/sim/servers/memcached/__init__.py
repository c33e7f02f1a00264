"""Simulated memcached 1.6 server: text protocol, item store with slab classes and eviction."""
