"""The benchmark's reader of Jepsen's logs of etcd."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.linearizability.etcd_logs import convert, ours

BEGINS = ["0\t:invoke\t:write\t1", "0\t:ok\t:write\t1", "1\t:invoke\t:cas\t[1 2]"]


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        (["1\t:ok\t:cas\t[1 2]", "0\t:invoke\t:read\tnil", "0\t:ok\t:read\t2"], "Ok"),
        (["1\t:fail\t:cas\t[1 2]"], "Illegal"),  # the value was 1 all the time
        (["1\t:info\t:cas\t:timed-out", "0\t:invoke\t:read\tnil", "0\t:ok\t:read\t2"], "Ok"),
        (["1\t:info\t:cas\t:timed-out", "0\t:invoke\t:read\tnil", "0\t:ok\t:read\tnil"], "Illegal"),
    ],
    ids=["ok", "refused", "unknown", "never-nil-again"],
)
def test_verdicts_of_small_logs(tmp_path: Path, ends: list[str], verdict: str) -> None:
    log, history = tmp_path / "etcd_000.log", tmp_path / "etcd_000.jsonl"
    log.write_text("".join(f"INFO  jepsen.util - {line}\n" for line in ("Run: starts", *BEGINS, *ends)))
    convert(log, history)
    assert ours(history, 10.0)[0] == verdict
