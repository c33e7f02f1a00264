"""Simulated ZooKeeper 3.8 ensemble: wire protocol, sessions, znodes, watches, elections and replication."""
