"""Leader election of Kubernetes' client-go, ``leaderelection.LeaderElector`` with a ``resourcelock.LeaseLock``,
unmodified; tested with k8s.io/client-go 0.37.2 on Kubernetes 1.33.4.

Its documentation says that it "does not guarantee that only one client is acting as a leader (a.k.a. fencing)", that it
"is tolerant to arbitrary clock skew, but is not tolerant to arbitrary clock skew rate", and that a client "needs to
wait a full LeaseDuration without observing a change to the record before it can attempt to take over". Its clocks are
Go's monotonic ones, so that no jump of a wall clock affects it.

LeaseDuration is the ttl, in whole seconds upwards, since the Lease has whole seconds (with ``whole_seconds=false`` the
ttl as it is, of which client-go then cuts the fraction off). RenewDeadline and RetryPeriod have the proportions of
client-go's defaults: 15, 10 and 2 s. ReleaseOnCancel is on; with ``release_on_cancel=false`` a release ends the
renewals only, and the next leader waits until the lease is over. ``valid_for`` is LeaseDuration from the write that
made the client the leader; a leader prolongs it by renewals every RetryPeriod.

``docker/client-go/leader.go`` calls it as client-go's example does: an elector with an identity of its own for each
acquire, as in a process that is started again, and ``Run`` in a goroutine. :meth:`still_valid` is "the context of
OnStartedLeading is not cancelled", which is what a leader's work looks at. The fence is the record's LeaderTransitions,
which client-go counts and nobody checks.

Requests: ``GET`` of the Lease, ``PUT`` with its resourceVersion (``POST`` if there is none); a leader's renewal is a
``PUT`` with the last resourceVersion that it knows. Release: ``GET``, and ``PUT`` with an empty holder.
Source: tools/leaderelection/leaderelection.go, resourcelock/leaselock.go.

Safe for: correctness, if the resource refuses a number below the highest it has seen.

Known failures: with ReleaseOnCancel a late release ends another leader's Lease, and work goes on until the release has
been tried (docs/findings); k8s-lease-rate (by its documentation), ttl-pause-write.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.program import Checks

_RUN = "harness run client-go-leader --cluster docker"


class ClientGoLeader(Checks):
    info: ClassVar = LockInfo(
        name="client-go-leader",
        title="client-go's LeaderElector on a Lease, unmodified",
        algorithm="a Lease replaced by compare-and-swap of its version; taken over when unchanged for the lease",
        source="k8s.io/client-go 0.37.2, tools/leaderelection/leaderelection.go",
        safety="F",
        kinds=("kubernetes",),
        fence=True,
        options={"whole_seconds": True, "release_on_cancel": True},
        on_death="expiry: candidates wait until the Lease has not changed for its duration",
        outage="leaders stop after RenewDeadline while the API server is down; Leases survive its restart",
        overtime=3.0,  # whole seconds, and the pause of a candidate between two tries
        language="Go",
        library="k8s.io/client-go 0.37.2",
        promises=(
            "a candidate waits a full LeaseDuration without a change of the record; tolerant to arbitrary clock skew, "
            "but not to arbitrary clock skew rate; no guarantee that only one client acts as a leader"
        ),
        runtime="client-go",
        failures=(
            Failure(
                "ttl-pause-write", "the leader is paused for longer than the lease", f"{_RUN} --nemesis client-pause"
            ),
        ),
    )
    command: ClassVar = ("/opt/locks",)
