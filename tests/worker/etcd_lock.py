"""A user's lock on etcd. Its client library uses gRPC, parts of which the simulator replaces when a run begins."""

from __future__ import annotations

from harness.lock_impls.etcd_mutex import EtcdMutex


class UsersEtcdLock(EtcdMutex):
    pass
