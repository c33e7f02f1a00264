"""etcd's own mutex for Go, ``concurrency.Mutex``, unmodified; tested with go.etcd.io/etcd/client/v3 3.6.8 on etcd
3.4.23.

The package ``concurrency`` of 3.7.3 differs only in the names of its protobuf types. Its documentation promises
"distributed locking ... by leases"; that a ``Session``'s ``Done()`` "returns a channel that closes when the lease is
orphaned, expires, or is otherwise no longer being refreshed"; and that ``Header()`` is "the response header received
from etcd on acquiring the lock". So :meth:`still_valid` checks ``Done()``, and the fence is ``Header().Revision``.

Requests: ``LeaseGrant``, ``LeaseKeepAlive`` (one session for all keys of a client; the ttl in whole seconds, at least
2) · ``Txn`` "if create_revision(/locks/KEY/LEASE) == 0 then put it", with the oldest key under the prefix · while there
are older keys: ``Watch`` for the deletion of the next older one · ``Range`` of the own key, to check that it still
exists · release: ``DeleteRange`` of the own key.

``docker/go/etcd.go`` calls it with the client's defaults (``DialTimeout`` 5 s, as in the client's first example).
``Lock`` gets a context that ends with the waiting time; ``TryLock`` and ``Unlock`` get one of 2 s. If a ``Lock`` has
not returned 3 s after its context has ended (it deletes its key with a context that never ends), the program closes the
client. The library's errors do not say whether a key is left in the queue; an interceptor observes that.

A session that already has the lock gets it again from ``Lock``, and the first release frees it.
Source: client/v3/concurrency/mutex.go, session.go.

Safe for: correctness, if the resource refuses a number below the highest it has seen.

Known failures: ttl-pause-write and etcd-pause (``Done()`` closes up to half a second after a pause, and ``Unlock`` of a
lost lock returns no error), etcd-stale-unlock (by reading the source), etcd-cancel (a try whose clean-up fails stays in
the queue; docs/findings). Not affected: etcd-11456 (a waiter whose session has ended gets an error; confirmed with
that scenario's plan).
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.program import Checks

OVERTIME_S = 1.0
"""By how much a lease may outlast its ttl: it is a whole number of seconds, and the leader checks every half second."""


class GoEtcdMutex(Checks):
    info: ClassVar = LockInfo(
        name="go-etcd-mutex",
        title="etcd's concurrency.Mutex for Go, unmodified",
        algorithm=(
            "A key on the session's lease under a prefix; the oldest key holds the lock, others watch the key before "
            "theirs."
        ),
        source="go.etcd.io/etcd/client/v3 3.6.8, concurrency/mutex.go",
        safety="F",
        kinds=("etcd",),
        fence=True,
        queue=True,
        on_death="expiry: nobody keeps the lease alive, and it ends after the ttl",
        outage=(
            "about a second if it was the leader; while a member is silent, requests to it wait until their context "
            "ends, and sessions that are kept alive through it end"
        ),
        no_single_point=True,
        overtime=OVERTIME_S,
        language="Go",
        library="go.etcd.io/etcd/client/v3 3.6.8",
        promises=(
            "a lock for as long as its session lasts, whose Done() closes when the lease expires or is no longer "
            "refreshed; a context ends the waiting"
        ),
        runtime="go",
        failures=(
            Failure(
                "etcd-pause",
                "the holder is paused for longer than the lease",
                "harness run go-etcd-mutex --cluster docker --nemesis client-pause",
            ),
        ),
    )
    command: ClassVar = ("/opt/locks",)
