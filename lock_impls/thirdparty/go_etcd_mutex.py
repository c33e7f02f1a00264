"""etcd's own mutex for Go, ``concurrency.Mutex``, unmodified; tested with go.etcd.io/etcd/client/v3 3.6.8 (the package
``concurrency`` of 3.7.3 is the same but for names of its protobuf types) on etcd 3.4.23.

Its documentation promises "distributed locking ... by leases", and of a ``Session`` that ``Done()`` "returns a channel
that closes when the lease is orphaned, expires, or is otherwise no longer being refreshed"; of ``Header()`` that it is
"the response header received from etcd on acquiring the lock". So :meth:`still_valid` asks ``Done()``, and the fence is
``Header().Revision``.

Requests: ``LeaseGrant``, ``LeaseKeepAlive`` (a session for all keys of a client; the ttl in whole seconds, 2 at
least) · ``Txn`` "if create_revision(/locks/KEY/LEASE) == 0 then put it", with the oldest key under the prefix · while
there are older ones: ``Watch`` for the deletion of the next older one · ``Range`` of the own key: still there? ·
release: ``DeleteRange`` of the own key.
``docker/go/etcd.go`` calls it, with the client's defaults (``DialTimeout`` 5 s, as its first example has it). ``Lock``
gets a context that ends with the waiting time, ``TryLock`` and ``Unlock`` one of 2 s. A ``Lock`` that is not back 3 s
after its context has ended (it deletes its key with a context that never ends) is ended by closing the client. What
its errors do not tell (is there a key in the queue?) is seen by an interceptor.
A session that has the lock is given it again by ``Lock``, and the first release frees it.

Source: client/v3/concurrency/mutex.go, session.go.

Safe for: correctness, together with a resource that refuses a number below the highest it has seen.
Known failures: ttl-pause-write and etcd-pause (``Done()`` is closed up to half a second after a standing still, and
``Unlock`` of a lock that is lost says that all is well), etcd-stale-unlock (by reading), etcd-cancel (a try whose
clean-up fails stays in the queue; docs/findings.md).
Not here: etcd-11456 (a waiter whose session has ended is told so; seen with that scenario's plan).
"""

from __future__ import annotations

from typing import ClassVar

from lock_impls.base import Failure, LockInfo
from lock_impls.program import Checks

OVERTIME_S = 1.0
"""By how much a lease may outlast its ttl: it is a whole number of seconds, and the leader looks every half second."""


class GoEtcdMutex(Checks):
    info: ClassVar = LockInfo(
        name="go-etcd-mutex",
        title="etcd's concurrency.Mutex for Go, unmodified",
        algorithm="A key on the session's lease under a prefix; the oldest has the lock, others watch the one before.",
        source="go.etcd.io/etcd/client/v3 3.6.8, concurrency/mutex.go",
        safety="F",
        kinds=("etcd",),
        fence=True,
        queue=True,
        on_death="the lease: nobody keeps it alive, and it ends after the ttl",
        outage="a second if it was the leader; while a member is silent, requests to it wait for their context, and "
        "sessions that are kept alive through it end",
        no_single_point=True,
        overtime=OVERTIME_S,
        language="Go",
        library="go.etcd.io/etcd/client/v3 3.6.8",
        promises="a lock for as long as its session lasts, whose Done() closes when the lease expires or is no longer "
        "refreshed; a context ends the waiting",
        runtime="go",
        failures=(
            Failure(
                "etcd-pause",
                "its holder stands still for longer than the lease",
                "harness run go-etcd-mutex --cluster docker --nemesis client-pause",
            ),
        ),
    )
    command: ClassVar = ("/opt/locks",)
