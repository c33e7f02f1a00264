"""The rows of the table of anomalies (``docs``: ANOMALIES) as the smallest histories that tell them.

Each story is a function whose docstring says what happens; the decorator says what each checker must answer.
"""

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
    """A is paused from 0.2 to 3.2 s of its 2 s lease; B acquires meanwhile."""
    story = Story(**settings).acquire("c0", 0.1, 0.11, fence=1, valid_for=2.0)
    story.fault(0, "client-pause", ["c0"], 0.2, 3.2)
    return story.acquire("c1", 0.15, 2.12, fence=2, valid_for=2.0)


@row("ttl-pause-write", invalid=(ME, FO, RES), valid=(NO, NR, LV, FAULTS))
def ttl_pause_write() -> History:
    """1: A reads, stands still for longer than its ttl, and writes after B has."""
    story = overrun().access("c0", "read", 0.12, 0, 0, fence=1)
    story.access("c1", "read", 2.2, 1, 0, fence=2).access("c1", "write", 2.5, 2, 1, fence=2).release("c1", 2.6)
    return story.access("c0", "write", 3.3, 3, 1, fence=1).release("c0", 3.4, outcome="fail").told()


@row("ttl-pause-write-fenced", invalid=(ME,), valid=(FO, RES, NO))
def ttl_pause_write_fenced() -> History:
    """1, SAVED: the same with a resource that fences; the lock level still breaks."""
    story = overrun(fencing="on").access("c0", "read", 0.12, 0, 0, fence=1)
    story.access("c1", "read", 2.2, 1, 0, fence=2).access("c1", "write", 2.5, 2, 1, fence=2).release("c1", 2.6)
    story.call("c0", "write", 3.3, 3.301, "fail", asked={"fence": 1, "value": 1}, error="stale fence")
    return story.release("c0", 3.4, outcome="fail").told()


@row("random-token-cas", invalid=(ME,), valid=(FO, RES))
def random_token_cas() -> History:
    """13: tokens are random strings, compared and set by the resource; their order means nothing."""
    story = Story(fencing="cas").acquire("c0", 0.1, 0.11, fence="ff01", valid_for=2.0)
    story.acquire("c1", 0.15, 2.12, fence="00aa", valid_for=2.0).access("c0", "read", 0.12, 0, 0, fence="ff01")
    story.access("c1", "read", 2.2, 1, 0, fence="00aa").access("c1", "write", 2.5, 2, 1, fence="00aa")
    story.call("c0", "write", 3.3, 3.301, "fail", asked={"fence": "ff01", "value": 1}, error="not the last token")
    return story.release("c1", 3.35).release("c0", 3.4, outcome="fail").told()


@row("del-foreign", invalid=(ME, NO), valid=(NR, LV))
def del_foreign() -> History:
    """7: A overran its ttl and deletes B's key; C gets in while B works."""
    story = overrun().acquire("c2", 2.2, 3.302, fence=3, valid_for=2.0).release("c0", 3.3)
    return story.release("c1", 3.6).release("c2", 3.9).told()


@row("uniq-del-foreign", invalid=(ME, NO))
def uniq_del_foreign() -> History:
    """16, 17: no lease; a cleaner removes A's row, B inserts, A's DELETE removes B's, C inserts (C had waited)."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.2, 3.0).acquire("c2", 0.3, 3.502)
    return story.release("c0", 3.5).release("c1", 4.0).release("c2", 4.5).told()


@row("ttl-overrun-twice", invalid=(ME,), valid=(NO,))
def ttl_overrun_twice() -> History:
    """4: A and B both overrun; A's release is between, but C came after B's lease had ended: no release is to blame."""
    story = overrun().release("c0", 3.3).acquire("c2", 2.2, 4.13, valid_for=2.0)
    return story.release("c1", 4.5).release("c2", 4.6).told()


@row("redis-clock-fwd", invalid=(ME,), valid=(NO,))
def redis_clock_fwd() -> History:
    """46: the server's clock jumps; C's grant is no fault of A, though A's (refused) release came between."""
    story = overrun().jump(3.25, {"n1": 60.0}).release("c0", 3.3)
    return story.acquire("c2", 2.2, 3.302, valid_for=2.0).release("c1", 3.6).release("c2", 3.9).told()


@row("redis-async-failover", invalid=(ME, FO))
def redis_async_failover() -> History:
    """38: the promoted replica knows neither the lock nor the counter: B gets the same token."""
    story = Story().acquire("c0", 0.1, 0.11, fence=7, valid_for=2.0)
    story.fault(0, "failover", ["n1"], 0.2, 0.6, disturbs=True)
    return story.acquire("c1", 0.7, 0.71, fence=7, valid_for=2.0).release("c0", 0.9).release("c1", 1.0).told()


@row("zk-seq-reset", invalid=(FO,), valid=(ME,))
def zk_seq_reset() -> History:
    """95: the parent node was deleted and the sequence starts again at 0."""
    story = Story().acquire("c0", 0.1, 0.11, fence=5).acquire("c1", 0.15, 0.31, fence=6).release("c0", 0.3)
    return story.release("c1", 0.5).acquire("c0", 0.6, 0.61, fence=0).release("c0", 0.7).told()


@row("uniq-reent-nocount", invalid=(ME,), valid=(NO,))
def uniq_reent_nocount() -> History:
    """19: the inner of two nested releases frees the lock."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c0", 0.2, 0.21).release("c0", 0.3).acquire("c1", 0.15, 0.32)
    return story.release("c1", 0.5).release("c0", 0.6).told()


@row("reentrant", valid=(ME, FO, NO, NR, LV))
def reentrant() -> History:
    """CONTROL: nested acquires with the token of the outer one, or a newer one, are no overlap and no regression."""
    story = Story().acquire("c0", 0.1, 0.11, fence=1).acquire("c0", 0.2, 0.21, fence=1).release("c0", 0.3)
    story.acquire("c1", 0.15, 0.62, fence=2).release("c0", 0.6)
    return story.release("c1", 0.9).told()


@row("unlock-before-commit", invalid=(RES,), valid=(ME,))
def unlock_before_commit() -> History:
    """29: the lock is perfect, and the write comes after the release."""
    story = Story().acquire("c0", 0.1, 0.11).access("c0", "read", 0.2, 0, 0).release("c0", 0.3)
    story.acquire("c1", 0.15, 0.31).access("c1", "read", 0.35, 1, 0).access("c0", "write", 0.4, 2, 1)
    return story.access("c1", "write", 0.45, 3, 1).release("c1", 0.5).told()


@row("rr-stale-read", invalid=(RES,), valid=(ME, FO))
def rr_stale_read() -> History:
    """28: B reads from a snapshot older than its lock."""
    story = Story().acquire("c0", 0.1, 0.11, fence=1).access("c0", "read", 0.15, 0, 0, fence=1)
    story.access("c0", "write", 0.2, 1, 1, fence=1).release("c0", 0.3).acquire("c1", 0.15, 0.31, fence=2)
    story.access("c1", "read", 0.35, 2, 0, fence=2).access("c1", "write", 0.4, 3, 1, fence=2)
    return story.release("c1", 0.5).told()


@row("oversold", invalid=(RES,))
def oversold() -> History:
    """The inventory workload: one unit, two buyers."""
    story = Story(stock={"k0": 1}).acquire("c0", 0.1, 0.11).acquire("c1", 0.15, 2.2)
    return story.access("c0", "take", 2.5, 0).access("c1", "take", 2.6, 1).release("c1", 2.7).release("c0", 2.8).told()


@row("setnx-crash", invalid=(NR, LV), valid=(ME,))
def setnx_crash() -> History:
    """5: the holder dies and the key has no expiry."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11)
    story.acquire("c1", 0.2, 10.0, "fail").fault(0, "client-crash", ["c0"], 0.3).crash(0.3, "c0")
    return story.told()


@row("ttl-crash", valid=(ME, NR, LV))
def ttl_crash() -> History:
    """CONTROL of 5: with an expiry B gets it when the ttl is over."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).acquire("c1", 0.2, 2.2, valid_for=2.0)
    return story.fault(0, "client-crash", ["c0"], 0.3).crash(0.3, "c0").release("c1", 2.5).told()


@row("redis-clock-back", invalid=(NR, LV), valid=(ME,))
def redis_clock_back() -> History:
    """47: the server's clock steps back after the grant; the key outlives its ttl by the step."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).crash(0.3, "c0").fault(0, "clock-jump", ["n1"], 0.35)
    return story.acquire("c1", 0.2, 5.0, "fail", timeout=4.7).acquire("c1", 5.01, 9.0).release("c1", 9.1).told()


@row("lost-reply-acquire", invalid=(NR, LV))
def lost_reply_acquire() -> History:
    """9: the acquire was applied, its reply lost, and nobody cleans up."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c2", 0.03, 0.06).release("c2", 0.08)
    return story.acquire("c0", 0.1, 1.1, "info", timeout=1.0).acquire("c1", 0.2, 8.0, "fail").told()


@row("rpy-release-error", invalid=(NR, LV))
def rpy_release_error() -> History:
    """75: the release fails, the key stays (here without an expiry)."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.5, outcome="fail").acquire("c1", 0.2, 0.3, "fail")
    return story.acquire("c1", 0.4, 9.0, "fail").acquire("c2", 0.01, 0.02).release("c2", 0.03).told()


@row("rpy-lost-release", valid=(ME, NO, NR, LV))
def rpy_lost_release() -> History:
    """76, CONTROL for ME: the release was applied, its reply lost, and the retry is refused."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).release("c0", 0.5, 0.7, "fail")
    return story.acquire("c1", 0.2, 0.55, valid_for=2.0).release("c1", 0.9).told()


@row("watchdog-zombie", invalid=(LV,), valid=(ME,))
def watchdog_zombie() -> History:
    """11: the worker hangs, its watchdog renews the lock for ever, the others starve."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11, valid_for=2.0)
    return story.fault(0, "client-hang", ["c0"], 0.2).acquire("c1", 0.2, 9.0, "fail").told()


@row("redis-oom", valid=SAFETY, invalid=(LV,))
def redis_oom() -> History:
    """45, CONTROL for safety: the memory is full and every acquire is refused."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.1, 0.31).release("c0", 0.3).release("c1", 0.5)
    for step in range(40):
        story.acquire("c0", 0.6 + step / 10, 0.65 + step / 10, "fail")
    return story.told()


@row("slow-link", invalid=(LV,))
def slow_link() -> History:
    """Everybody's links are slow, which is no disturbance, and everybody goes on asking in vain."""
    story = Story().fault(0, "latency", ["c0", "c1", "n1"], 0.0)
    story.acquire("c0", 0.1, 0.3).acquire("c1", 0.1, 0.6).release("c0", 0.5).release("c1", 1.0)
    return story.acquire("c0", 1.2, 9.0, "fail").acquire("c1", 1.2, 9.0, "fail").told()


@row("outage", valid=(NR, LV))
def outage() -> History:
    """CONTROL: all servers are gone for 5 s; nobody can be blamed, and afterwards the lock comes back."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.3, 0.5, "info")
    story.fault(0, "kill", ["n1"], 0.2, 5.2, disturbs=True)
    for step in range(5):
        story.acquire("c1", 0.6 + step, 1.5 + step, "info", timeout=0.9)
    return story.acquire("c1", 5.6, 7.0).release("c1", 7.1).told()


@row("rl-restart-delayed", valid=ALL)
def rl_restart_delayed() -> History:
    """56, CONTROL: node C stays down for longer than a ttl; B gets the lock after A."""
    story = Story().acquire("c0", 0.1, 0.11, fence=1, valid_for=1.9).fault(0, "kill", ["n3"], 0.2, 3.0, disturbs=True)
    story.acquire("c1", 0.3, 0.61, fence=2, valid_for=1.9).release("c0", 0.6)
    return story.release("c1", 3.5).told()


@row("rl-pause-inflight", valid=(ME,))
def rl_pause_inflight() -> History:
    """57, CONTROL: a client that checks the time refuses a grant whose lease is over."""
    story = Story(discipline="checking").acquire("c0", 0.1, 3.5, "fail").acquire("c1", 2.0, 2.2, valid_for=1.9)
    return story.release("c1", 2.5).acquire("c0", 3.6, 3.7).release("c0", 3.8).told()


@row("check-lost", valid=(ME,))
def check_lost() -> History:
    """CONTROL: a checking client that is told in time stops believing."""
    story = Story(discipline="checking").acquire("c0", 0.1, 0.11, valid_for=3.0)
    story.call("c0", "check", 2.0, 2.05, got={"valid": False}).acquire("c1", 0.3, 2.2, valid_for=2.0)
    return story.release("c0", 2.5, outcome="fail").release("c1", 2.6).told()


@row("no-contention", unknown=(ME,))
def no_contention() -> History:
    """Nobody ever wanted the key while another had it."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.2).acquire("c1", 0.3, 0.31)
    return story.release("c1", 0.4).told()


@row("one-acquire", unknown=(ME, FO, NO, NR, LV))
def one_acquire() -> History:
    """Too few acquires to tell."""
    return Story().acquire("c0", 0.1, 0.11, fence=1).acquire("c1", 0.15, 0.2, "fail").release("c0", 0.3).told()


@row("interrupted", unknown=ALL)
def interrupted() -> History:
    """Stopped by hand: nothing wrong so far."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.15, 0.31).release("c0", 0.3).release("c1", 0.4)
    return story.told(reason="interrupted")


@row("fault-not-seen", unknown=(FAULTS,))
def fault_not_seen() -> History:
    """The nemesis injected a partition, and everybody still reaches everybody."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.3)
    about = {"id": 0, "fault": "partition-halves", "hosts": ["n1"]}
    story.nemesis(0.2, "inject", "invoke", {**about, "disturbs": True, "params": {}})
    story.nemesis(0.25, "inject", "fail", {**about, "observed": {}}, error="no effect seen; expected a cut link")
    return story.told()


@row("handoff", valid=(ME, NO, LV))
def handoff() -> History:
    """CONTROL: the release is invoked and the next grant is back at the same instant: the holds touch, that is all."""
    story = Story().acquire("c0", 0.1, 0.2).acquire("c1", 0.15, 0.5).release("c0", 0.5, 0.6)
    return story.release("c1", 0.9).told()


@row("info-write", valid=(RES,))
def info_write() -> History:
    """CONTROL: the answer of a write was lost, and the next read shows that it was applied."""
    story = Story().acquire("c0", 0.1, 0.11).access("c0", "read", 0.2, 0, 0).access("c0", "write", 0.3, 1, 1)
    story.release("c0", 0.4).acquire("c1", 0.2, 0.41).access("c1", "read", 0.5, 2, 1)
    story.call("c1", "write", 0.6, 0.7, "info", asked={"fence": None, "value": 2}).release("c1", 0.8)
    return story.acquire("c2", 0.3, 0.81).access("c2", "read", 0.9, 4, 2).release("c2", 1.0).told()


@row("two-sections", valid=(RES,))
def two_sections() -> History:
    """CONTROL: what A read in an earlier critical section is not what its next write is based on."""
    story = Story().acquire("c0", 0.1, 0.11).access("c0", "read", 0.2, 0, 0).release("c0", 0.4)
    story.acquire("c1", 0.2, 0.41).access("c1", "read", 0.5, 1, 0).access("c1", "write", 0.6, 2, 1).release("c1", 0.7)
    return story.acquire("c0", 0.65, 0.71).access("c0", "write", 0.8, 3, 7).release("c0", 0.9).told()


@row("refused-release", invalid=(ME,), valid=(NO,))
def refused_release() -> History:
    """44: B's key is evicted under B, with no fault to be seen; A's release came between, and was refused."""
    story = overrun().release("c0", 3.3, outcome="fail").acquire("c2", 2.2, 3.302, valid_for=2.0)
    return story.release("c1", 3.6).release("c2", 3.9).told()


@row("late-recovery", valid=(NR, LV))
def late_recovery() -> History:
    """CONTROL: after the heal of a long fault there are ttl + slack again before anybody may complain."""
    story = Story().acquire("c0", 0.1, 0.11).fault(0, "partition-halves", ["n1"], 0.2, 9.0, disturbs=True)
    story.release("c0", 0.5).acquire("c1", 0.3, 11.5, timeout=20.0)
    return story.release("c1", 11.6).told()


@row("nobody-asks", valid=(NR, LV))
def nobody_asks() -> History:
    """CONTROL: after the crash nobody wants the key, so nobody can say that it is stuck."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11).crash(0.3, "c0")
    return story.told(20.0)


@row("paused-asker", valid=(NR, LV))
def paused_asker() -> History:
    """CONTROL: the only client that asks stands still."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.15, 0.31).release("c0", 0.3).release("c1", 0.4)
    story.acquire("c0", 0.5, 9.0, "info", timeout=0.5).fault(0, "client-pause", ["c0"], 0.55, 8.9)
    return story.told(9.1)


@row("paused-holder", valid=(ME, LV))
def paused_holder() -> History:
    """CONTROL of 11: a lock without an expiry, whose holder stands still and then releases."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11)
    story.fault(0, "client-pause", ["c0"], 0.2, 6.0).acquire("c1", 0.2, 6.12)
    return story.release("c0", 6.1).release("c1", 6.2).told()


@row("inject-cut-off", unknown=(FAULTS,))
def inject_cut_off() -> History:
    """The nemesis never said whether its fault took effect."""
    story = Story()
    about = {"id": 0, "fault": "kill", "hosts": ["n1"], "disturbs": True, "params": {}}
    story.nemesis(0.2, "inject", "invoke", about)
    return story.told()


@row("crash-in-outage", valid=(NR, LV))
def crash_in_outage() -> History:
    """CONTROL of 5: the holder dies while the servers are cut off; the key is back within ttl + slack of the heal."""
    story = Story().acquire("c1", 0.01, 0.02).release("c1", 0.05).acquire("c0", 0.1, 0.11).crash(0.3, "c0")
    story.fault(0, "partition-halves", ["n1"], 0.2, 9.0, disturbs=True).acquire("c1", 0.3, 11.5, timeout=20.0)
    return story.release("c1", 11.6).told()
