"""The rows of the table of anomalies (``docs``: ANOMALIES), each as the smallest history that shows it.

Each story is a function. Its docstring says what happens; its decorator gives the expected verdict of each
checker."""

from __future__ import annotations

from collections.abc import Callable

from harness.history import History
from tests.checkers.story import Story

Tale = Callable[[], History]
STORIES: dict[tuple[str, Tale], list[tuple[str, str]]] = {}

ME, FO, RES, NO, NR, LV, FAULTS = (
    "mutual-exclusion",
    "fencing",
    "resource",
    "ownership",
    "deadlock",
    "liveness",
    "faults",
)
SAFETY = (ME, FO, RES, NO)
ALL = (*SAFETY, NR, LV, FAULTS)


def row(
    name: str, *, invalid: tuple[str, ...] = (), unknown: tuple[str, ...] = (), valid: tuple[str, ...] = ()
) -> Callable[[Tale], Tale]:
    def keep(tale: Tale) -> Tale:
        verdicts = (("invalid", invalid), ("unknown", unknown), ("valid", valid))
        STORIES[name, tale] = [(checker, verdict) for verdict, checkers in verdicts for checker in checkers]
        return tale

    return keep


def overrun(**settings: str) -> Story:
    """A is paused from 0.2 s to 3.2 s, longer than its 2 s lease. B acquires meanwhile."""
    story = Story(**settings).acquire("c0", 0.1, 0.11, fence=1, valid_for=2.0)
    story.fault(0, "client-pause", ["c0"], 0.2, 3.2)
    return story.acquire("c1", 0.15, 2.12, fence=2, valid_for=2.0)


@row("ttl-pause-write", invalid=(ME, FO, RES), valid=(NO, NR, LV, FAULTS))
def ttl_pause_write() -> History:
    """1: A reads, is paused for longer than its ttl, and writes after B has written."""
    story = overrun().access("c0", "read", 0.12, 0, 0, fence=1)
    story.access("c1", "read", 2.2, 1, 0, fence=2).access("c1", "write", 2.5, 2, 1, fence=2).release("c1", 2.6)
    return story.access("c0", "write", 3.3, 3, 1, fence=1).release("c0", 3.4, outcome="fail").history()


@row("ttl-pause-write-fenced", invalid=(ME,), valid=(FO, RES, NO))
def ttl_pause_write_fenced() -> History:
    """1, SAVED: the same with a resource that checks fences. Mutual exclusion of the lock is still violated."""
    story = overrun(fencing="on").access("c0", "read", 0.12, 0, 0, fence=1)
    story.access("c1", "read", 2.2, 1, 0, fence=2).access("c1", "write", 2.5, 2, 1, fence=2).release("c1", 2.6)
    story.call("c0", "write", 3.3, 3.301, "fail", asked={"fence": 1, "value": 1}, error="stale fence")
    return story.release("c0", 3.4, outcome="fail").history()


@row("random-token-cas", invalid=(ME,), valid=(FO, RES))
def random_token_cas() -> History:
    """13: tokens are random strings that the resource only compares for equality. They have no order."""
    story = Story(fencing="cas").acquire("c0", 0.1, 0.11, fence="ff01", valid_for=2.0)
    story.acquire("c1", 0.15, 2.12, fence="00aa", valid_for=2.0).access("c0", "read", 0.12, 0, 0, fence="ff01")
    story.access("c1", "read", 2.2, 1, 0, fence="00aa").access("c1", "write", 2.5, 2, 1, fence="00aa")
    story.call("c0", "write", 3.3, 3.301, "fail", asked={"fence": "ff01", "value": 1}, error="not the last token")
    return story.release("c1", 3.35).release("c0", 3.4, outcome="fail").history()


@row("del-foreign", invalid=(ME, NO), valid=(NR, LV))
def del_foreign() -> History:
    """7: A overruns its ttl and deletes B's key. C acquires while B holds the lock."""
    story = overrun().acquire("c2", 2.2, 3.302, fence=3, valid_for=2.0).release("c0", 3.3)
    return story.release("c1", 3.6).release("c2", 3.9).history()


@row("uniq-del-foreign", invalid=(ME, NO))
def uniq_del_foreign() -> History:
    """16, 17: a lock without a lease. A cleaner removes A's row and B inserts its own. A's DELETE removes B's row,
    and C, which has waited, inserts."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.2, 3.0).acquire("c2", 0.3, 3.502)
    return story.release("c0", 3.5).release("c1", 4.0).release("c2", 4.5).history()


@row("ttl-overrun-twice", invalid=(ME,), valid=(NO,))
def ttl_overrun_twice() -> History:
    """4: A and B both overrun. A releases in between, but C acquires after the end of B's lease, so no release is the
    cause."""
    story = overrun().release("c0", 3.3).acquire("c2", 2.2, 4.13, valid_for=2.0)
    return story.release("c1", 4.5).release("c2", 4.6).history()


@row("redis-clock-fwd", invalid=(ME,), valid=(NO,))
def redis_clock_fwd() -> History:
    """46: the server's clock jumps. A is not the cause of C's grant, though A's (refused) release came between."""
    story = overrun().jump(3.25, {"n1": 60.0}).release("c0", 3.3)
    return story.acquire("c2", 2.2, 3.302, valid_for=2.0).release("c1", 3.6).release("c2", 3.9).history()


@row("redis-async-failover", invalid=(ME, FO))
def redis_async_failover() -> History:
    """38: the promoted replica has neither the lock nor the counter, so B gets the same token."""
    story = Story().acquire("c0", 0.1, 0.11, fence=7, valid_for=2.0)
    story.fault(0, "failover", ["n1"], 0.2, 0.6, disturbs=True)
    return story.acquire("c1", 0.7, 0.71, fence=7, valid_for=2.0).release("c0", 0.9).release("c1", 1.0).history()


@row("zk-seq-reset", invalid=(FO,), valid=(ME,))
def zk_seq_reset() -> History:
    """95: the parent node was deleted and the sequence starts again at 0."""
    story = Story().acquire("c0", 0.1, 0.11, fence=5).acquire("c1", 0.15, 0.31, fence=6).release("c0", 0.3)
    return story.release("c1", 0.5).acquire("c0", 0.6, 0.61, fence=0).release("c0", 0.7).history()


@row("uniq-reent-nocount", invalid=(ME,), valid=(NO,))
def uniq_reent_nocount() -> History:
    """19: the inner of two nested releases frees the lock."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c0", 0.2, 0.21).release("c0", 0.3).acquire("c1", 0.15, 0.32)
    return story.release("c1", 0.5).release("c0", 0.6).history()


@row("reentrant", valid=(ME, FO, NO, NR, LV))
def reentrant() -> History:
    """CONTROL: nested acquires with the token of the outer one, or a newer one, are no overlap and no regression."""
    story = Story().acquire("c0", 0.1, 0.11, fence=1).acquire("c0", 0.2, 0.21, fence=1).release("c0", 0.3)
    story.acquire("c1", 0.15, 0.62, fence=2).release("c0", 0.6)
    return story.release("c1", 0.9).history()


@row("unlock-before-commit", invalid=(RES,), valid=(ME,))
def unlock_before_commit() -> History:
    """29: the lock is perfect, and the write comes after the release."""
    story = Story().acquire("c0", 0.1, 0.11).access("c0", "read", 0.2, 0, 0).release("c0", 0.3)
    story.acquire("c1", 0.15, 0.31).access("c1", "read", 0.35, 1, 0).access("c0", "write", 0.4, 2, 1)
    return story.access("c1", "write", 0.45, 3, 1).release("c1", 0.5).history()


@row("rr-stale-read", invalid=(RES,), valid=(ME, FO))
def rr_stale_read() -> History:
    """28: B reads from a snapshot that is older than its hold."""
    story = Story().acquire("c0", 0.1, 0.11, fence=1).access("c0", "read", 0.15, 0, 0, fence=1)
    story.access("c0", "write", 0.2, 1, 1, fence=1).release("c0", 0.3).acquire("c1", 0.15, 0.31, fence=2)
    story.access("c1", "read", 0.35, 2, 0, fence=2).access("c1", "write", 0.4, 3, 1, fence=2)
    return story.release("c1", 0.5).history()


@row("oversold", invalid=(RES,))
def oversold() -> History:
    """The inventory workload: one unit, two buyers."""
    story = Story(stock={"k0": 1}).acquire("c0", 0.1, 0.11).acquire("c1", 0.15, 2.2)
    return (
        story.access("c0", "take", 2.5, 0).access("c1", "take", 2.6, 1).release("c1", 2.7).release("c0", 2.8).history()
    )


@row("setnx-crash", invalid=(NR, LV), valid=(ME,))
def setnx_crash() -> History:
    """5: the holder dies and the key has no expiry."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11)
    story.acquire("c1", 0.2, 10.0, "fail").fault(0, "client-crash", ["c0"], 0.3).crash(0.3, "c0")
    return story.history()


@row("ttl-crash", valid=(ME, NR, LV))
def ttl_crash() -> History:
    """CONTROL of 5: with an expiry, B acquires when the ttl is over."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).acquire("c1", 0.2, 2.2, valid_for=2.0)
    return story.fault(0, "client-crash", ["c0"], 0.3).crash(0.3, "c0").release("c1", 2.5).history()


@row("redis-clock-back", invalid=(NR, LV), valid=(ME,))
def redis_clock_back() -> History:
    """47: the server's clock steps back after the grant; the key outlives its ttl by the step."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).crash(0.3, "c0").fault(0, "clock-jump", ["n1"], 0.35)
    return story.acquire("c1", 0.2, 5.0, "fail", timeout=4.7).acquire("c1", 5.01, 9.0).release("c1", 9.1).history()


@row("lost-reply-acquire", invalid=(NR, LV))
def lost_reply_acquire() -> History:
    """9: the acquire took effect, its reply was lost, and no client releases the lock."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c2", 0.03, 0.06).release("c2", 0.08)
    return story.acquire("c0", 0.1, 1.1, "info", timeout=1.0).acquire("c1", 0.2, 8.0, "fail").history()


@row("rpy-release-error", invalid=(NR, LV))
def rpy_release_error() -> History:
    """75: the release fails, and the key (here without an expiry) stays."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.5, outcome="fail").acquire("c1", 0.2, 0.3, "fail")
    return story.acquire("c1", 0.4, 9.0, "fail").acquire("c2", 0.01, 0.02).release("c2", 0.03).history()


@row("rpy-lost-release", valid=(ME, NO, NR, LV))
def rpy_lost_release() -> History:
    """76, CONTROL for ME: the release was applied, its reply lost, and the retry is refused."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).release("c0", 0.5, 0.7, "fail")
    return story.acquire("c1", 0.2, 0.55, valid_for=2.0).release("c1", 0.9).history()


@row("watchdog-zombie", invalid=(LV,), valid=(ME,))
def watchdog_zombie() -> History:
    """11: the worker hangs, its watchdog renews the lock for ever, and the others starve."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11, valid_for=2.0)
    return story.fault(0, "client-hang", ["c0"], 0.2).acquire("c1", 0.2, 9.0, "fail").history()


@row("redis-oom", valid=SAFETY, invalid=(LV,))
def redis_oom() -> History:
    """45, CONTROL for safety: the memory is full and every acquire is refused."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.1, 0.31).release("c0", 0.3).release("c1", 0.5)
    for step in range(40):
        story.acquire("c0", 0.6 + step / 10, 0.65 + step / 10, "fail")
    return story.history()


@row("slow-link", invalid=(LV,))
def slow_link() -> History:
    """All links are slow, which is no fault. All requests fail."""
    story = Story().fault(0, "latency", ["c0", "c1", "n1"], 0.0)
    story.acquire("c0", 0.1, 0.3).acquire("c1", 0.1, 0.6).release("c0", 0.5).release("c1", 1.0)
    return story.acquire("c0", 1.2, 9.0, "fail").acquire("c1", 1.2, 9.0, "fail").history()


@row("outage", valid=(NR, LV))
def outage() -> History:
    """CONTROL: all servers are unavailable for 5 s. This excuses everybody, and afterwards the lock is available
    again."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.3, 0.5, "info")
    story.fault(0, "kill", ["n1"], 0.2, 5.2, disturbs=True)
    for step in range(5):
        story.acquire("c1", 0.6 + step, 1.5 + step, "info", timeout=0.9)
    return story.acquire("c1", 5.6, 7.0).release("c1", 7.1).history()


@row("rl-restart-delayed", valid=ALL)
def rl_restart_delayed() -> History:
    """56, CONTROL: node C stays down for longer than a ttl. B acquires the lock after A."""
    story = Story().acquire("c0", 0.1, 0.11, fence=1, valid_for=1.9).fault(0, "kill", ["n3"], 0.2, 3.0, disturbs=True)
    story.acquire("c1", 0.3, 0.61, fence=2, valid_for=1.9).release("c0", 0.6)
    return story.release("c1", 3.5).history()


@row("rl-pause-inflight", valid=(ME,))
def rl_pause_inflight() -> History:
    """57, CONTROL: a client that checks the time refuses a grant whose lease has ended."""
    story = Story(discipline="checking").acquire("c0", 0.1, 3.5, "fail").acquire("c1", 2.0, 2.2, valid_for=1.9)
    return story.release("c1", 2.5).acquire("c0", 3.6, 3.7).release("c0", 3.8).history()


@row("check-lost", valid=(ME,))
def check_lost() -> History:
    """CONTROL: a checking client that learns of the loss in time stops believing that it holds the lock."""
    story = Story(discipline="checking").acquire("c0", 0.1, 0.11, valid_for=3.0)
    story.call("c0", "check", 2.0, 2.05, got={"valid": False}).acquire("c1", 0.3, 2.2, valid_for=2.0)
    return story.release("c0", 2.5, outcome="fail").release("c1", 2.6).history()


@row("no-contention", unknown=(ME,))
def no_contention() -> History:
    """No client requested the key while another held it."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.2).acquire("c1", 0.3, 0.31)
    return story.release("c1", 0.4).history()


@row("leases-over-at-once", unknown=(ME,))
def leases_over_at_once() -> History:
    """Every grant has a lease of no length, so the holds of checking clients end as they begin."""
    story = Story(discipline="checking").acquire("c0", 0.1, 0.11, valid_for=0.0).acquire("c1", 0.1, 0.12, valid_for=0.0)
    return story.release("c0", 0.5).release("c1", 0.6).history()


@row("short-leases", valid=(ME,))
def short_leases() -> History:
    """CONTROL: one lease of two was over when it was granted, the other a while later."""
    story = Story(discipline="checking").acquire("c0", 0.1, 0.11, valid_for=0.0).acquire("c1", 0.1, 0.12, valid_for=0.2)
    return story.release("c0", 0.5, outcome="fail").release("c1", 0.6, outcome="fail").history()


@row("tokens-without-order", unknown=(FO,))
def tokens_without_order() -> History:
    """The resource is to refuse older tokens, and the tokens are texts."""
    story = Story(fencing="on").acquire("c0", 0.1, 0.11, fence="ff01").release("c0", 0.3)
    return story.acquire("c1", 0.2, 0.32, fence="00aa").release("c1", 0.6).history()


@row("tokens-compared", valid=(FO,))
def tokens_compared() -> History:
    """CONTROL: the resource accepts the last token only, which need not have an order."""
    story = Story(fencing="cas").acquire("c0", 0.1, 0.11, fence="ff01").release("c0", 0.3)
    return story.acquire("c1", 0.2, 0.32, fence="00aa").release("c1", 0.6).history()


@row("few-tokens", unknown=(FO,))
def few_tokens() -> History:
    """One grant of three has a token."""
    story = Story().acquire("c0", 0.1, 0.11, fence=1).release("c0", 0.3)
    story.acquire("c1", 0.2, 0.32).release("c1", 0.6)
    return story.acquire("c2", 0.5, 0.62).release("c2", 0.9).history()


@row("shared-without-token", valid=(FO,))
def shared_without_token() -> History:
    """CONTROL: the grants without a token are shared."""
    story = Story().acquire("c0", 0.1, 0.11, fence=1).release("c0", 0.3)
    story.acquire("c1", 0.2, 0.32, shared=True).release("c1", 0.6)
    return story.acquire("c2", 0.5, 0.62, fence=2).release("c2", 0.9).history()


@row("one-acquire", unknown=(ME, FO, NO, NR, LV))
def one_acquire() -> History:
    """There are too few acquires for a verdict."""
    return Story().acquire("c0", 0.1, 0.11, fence=1).acquire("c1", 0.15, 0.2, "fail").release("c0", 0.3).history()


@row("interrupted", unknown=ALL)
def interrupted() -> History:
    """The user interrupted the run. It shows no violation so far."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.15, 0.31).release("c0", 0.3).release("c1", 0.4)
    return story.history(reason="interrupted")


@row("fault-not-seen", unknown=(FAULTS,))
def fault_not_seen() -> History:
    """The nemesis injected a partition, but every host still reaches every other."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.3)
    about = {"id": 0, "fault": "partition-halves", "hosts": ["n1"]}
    story.nemesis(0.2, "inject", "invoke", {**about, "disturbs": True, "params": {}})
    story.nemesis(0.25, "inject", "fail", {**about, "observed": {}}, error="no effect seen; expected a cut link")
    return story.history()


@row("handoff", valid=(ME, NO, LV))
def handoff() -> History:
    """CONTROL: a release is invoked at the instant at which the next grant completes. The holds touch, but do not
    overlap."""
    story = Story().acquire("c0", 0.1, 0.2).acquire("c1", 0.15, 0.5).release("c0", 0.5, 0.6)
    return story.release("c1", 0.9).history()


@row("info-write", valid=(RES,))
def info_write() -> History:
    """CONTROL: the reply to a write was lost. The next read shows that the write took effect."""
    story = Story().acquire("c0", 0.1, 0.11).access("c0", "read", 0.2, 0, 0).access("c0", "write", 0.3, 1, 1)
    story.release("c0", 0.4).acquire("c1", 0.2, 0.41).access("c1", "read", 0.5, 2, 1)
    story.call("c1", "write", 0.6, 0.7, "info", asked={"fence": None, "value": 2}).release("c1", 0.8)
    return story.acquire("c2", 0.3, 0.81).access("c2", "read", 0.9, 4, 2).release("c2", 1.0).history()


@row("two-sections", valid=(RES,))
def two_sections() -> History:
    """CONTROL: A's next write does not depend on a read in an earlier critical section."""
    story = Story().acquire("c0", 0.1, 0.11).access("c0", "read", 0.2, 0, 0).release("c0", 0.4)
    story.acquire("c1", 0.2, 0.41).access("c1", "read", 0.5, 1, 0).access("c1", "write", 0.6, 2, 1).release("c1", 0.7)
    return story.acquire("c0", 0.65, 0.71).access("c0", "write", 0.8, 3, 7).release("c0", 0.9).history()


@row("refused-release", invalid=(ME,), valid=(NO,))
def refused_release() -> History:
    """44: the server evicts B's key without any visible fault. A's release came between, and was refused."""
    story = overrun().release("c0", 3.3, outcome="fail").acquire("c2", 2.2, 3.302, valid_for=2.0)
    return story.release("c1", 3.6).release("c2", 3.9).history()


@row("late-recovery", valid=(NR, LV))
def late_recovery() -> History:
    """CONTROL: after a long fault heals, clients must wait ttl + slack again before a violation counts."""
    story = Story().acquire("c0", 0.1, 0.11).fault(0, "partition-halves", ["n1"], 0.2, 9.0, disturbs=True)
    story.release("c0", 0.5).acquire("c1", 0.3, 11.5, timeout=20.0)
    return story.release("c1", 11.6).history()


@row("nobody-asks", valid=(NR, LV))
def nobody_asks() -> History:
    """CONTROL: after the crash no client requests the key, so there is no evidence of a deadlock."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11).crash(0.3, "c0")
    return story.history(20.0)


@row("paused-asker", valid=(NR, LV))
def paused_asker() -> History:
    """CONTROL: the only client that requests the key is paused."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.15, 0.31).release("c0", 0.3).release("c1", 0.4)
    story.acquire("c0", 0.5, 9.0, "info", timeout=0.5).fault(0, "client-pause", ["c0"], 0.55, 8.9)
    return story.history(9.1)


@row("paused-holder", valid=(ME, LV))
def paused_holder() -> History:
    """CONTROL of 11: a lock without an expiry, whose holder is paused and then releases."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11)
    story.fault(0, "client-pause", ["c0"], 0.2, 6.0).acquire("c1", 0.2, 6.12)
    return story.release("c0", 6.1).release("c1", 6.2).history()


@row("inject-cut-off", unknown=(FAULTS,))
def inject_cut_off() -> History:
    """The nemesis never recorded whether its fault took effect."""
    story = Story()
    about = {"id": 0, "fault": "kill", "hosts": ["n1"], "disturbs": True, "params": {}}
    story.nemesis(0.2, "inject", "invoke", about)
    return story.history()


@row("crash-in-outage", valid=(NR, LV))
def crash_in_outage() -> History:
    """CONTROL of 5: the holder dies while the servers are unavailable. The key is available within ttl + slack of the
    heal."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11).crash(0.3, "c0")
    story.fault(0, "partition-halves", ["n1"], 0.2, 9.0, disturbs=True).acquire("c1", 0.3, 11.5, timeout=20.0)
    return story.release("c1", 11.6).history()
