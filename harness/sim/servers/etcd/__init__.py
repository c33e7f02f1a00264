"""Simulated etcd 3.4 cluster: gRPC and HTTP API of each member, Raft between members, MVCC store and leases."""
