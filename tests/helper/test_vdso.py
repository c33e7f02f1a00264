"""The clocks of real processes on this machine, moved while they run. No test depends on speed: each reading of a
target is compared with correct readings before and after it."""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from harness.clusters.docker.helper import vdso
from harness.clusters.docker.helper.vdso import ClockError

pytestmark = pytest.mark.docker

SECOND, DAY = 10**9, 86_400 * 10**9
HERE = Path(__file__).parent
SOURCE = Path(vdso.__file__).with_name("vdso_x86_64.S")
TARGET = """
import ctypes, json, os, subprocess, sys, time
libc = ctypes.CDLL(None)
libc.time.restype = ctypes.c_long
def read():
    pair = (ctypes.c_long * 2)()
    libc.gettimeofday(pair, None)
    print(json.dumps({"real": time.clock_gettime_ns(time.CLOCK_REALTIME), "coarse": time.clock_gettime_ns(5),
        "day": pair[0] * 10**9 + pair[1] * 1000, "time": libc.time(None) * 10**9,
        "monotonic": time.clock_gettime_ns(time.CLOCK_MONOTONIC)}), flush=True)
if sys.argv[1:]:
    read()
    sys.exit()
for line in sys.stdin:
    if line == "fork\\n":
        child = os.fork()
        if not child:
            read()
            os._exit(0)
        os.waitpid(child, 0)
    elif line == "exec\\n":
        subprocess.run([sys.executable, "-c", sys.orig_argv[2], "once"], check=True)
    else:
        read()
"""
Reading = dict[str, int]


def true_clocks() -> Reading:
    clocks = {"real": time.CLOCK_REALTIME, "coarse": 5, "monotonic": time.CLOCK_MONOTONIC}
    return {name: time.clock_gettime_ns(clock) for name, clock in clocks.items()}


class Target:
    """A Python process that reports the time itself, in a forked child, or in a program that it executes."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", TARGET]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def ask(self, command: str) -> tuple[Reading, Reading, Reading]:
        """Return the correct clocks before, the target's reading, and the correct clocks after."""
        assert self.process.stdin
        assert self.process.stdout
        before = true_clocks()
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        reading: Reading = json.loads(self.process.stdout.readline())
        return before, reading, true_clocks()

    def is_ahead(self, offset_ns: int, command: str = "read") -> None:
        before, reading, after = self.ask(command)
        first, last = before["real"] + offset_ns, after["real"] + offset_ns
        assert first <= reading["real"] <= last
        assert before["coarse"] + offset_ns <= reading["coarse"] <= after["coarse"] + offset_ns
        assert first // 1000 * 1000 <= reading["day"] <= last
        assert first // SECOND * SECOND <= reading["time"] <= last
        assert before["monotonic"] <= reading["monotonic"] <= after["monotonic"]


@pytest.fixture
def start() -> Iterator[Callable[[], Target]]:
    """Return a function that starts a target. All targets end with the test."""
    targets: list[Target] = []

    def one() -> Target:
        targets.append(Target())
        targets[-1].ask("read")
        return targets[-1]

    yield one
    for target in targets:
        target.process.kill()
        target.process.communicate()


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert shutil.which("gcc"), "these tests need gcc and binutils (apt-get install gcc)"
    program = tmp_path_factory.mktemp("readers") / "readers"
    options = ["-O2", "-Wall", "-Wextra", "-Wno-nonnull", "-Werror", "-mno-red-zone", "-pthread"]
    subprocess.run(["gcc", *options, "-o", program, HERE / "readers.c"], check=True)
    return program


class Running:
    """The running C program, whose clock can be moved."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    def finish(self) -> str:
        said, _ = self.process.communicate("\n", timeout=60)
        return said.strip()


def test_the_source_and_the_bytes_are_the_same(tmp_path: Path) -> None:
    for tool in ("as", "objcopy", "nm"):
        assert shutil.which(tool), f"this test needs {tool} (apt-get install binutils)"
    made, flat = tmp_path / "vdso.o", tmp_path / "vdso.bin"
    subprocess.run(["as", "-o", made, SOURCE], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, flat], check=True)
    names = subprocess.run(["nm", made], check=True, capture_output=True, text=True).stdout.splitlines()
    at = {name: int(value, 16) for value, _, name in (line.split() for line in names)}
    assert vdso.CODE.ljust(vdso.END, b"\0") == flat.read_bytes()
    assert {f"__vdso_{name}": at[name] for name in ("clock_gettime", "gettimeofday", "time")} == vdso.ROUTINES
    assert (at["generation"], at["blocks"], at["end"]) == (vdso.GENERATION, vdso.BLOCKS, vdso.END)
    assert vdso.BLOCKS + 2 * vdso.BLOCK == vdso.END
    assert len(vdso.CODE) == vdso.GENERATION


def test_moves_of_every_kind_and_back(start: Callable[[], Target]) -> None:
    target, other = start(), start()
    real, monotonic = time.time_ns(), time.monotonic_ns()
    target.is_ahead(0)
    assert vdso.offset(target.pid) == 0
    around = [1, -1, 999_999_999, -999_999_999, SECOND, -SECOND, 500_000_000, -500_000_000, -1_500_000_000]
    before_1970 = -time.time_ns() - 3 * SECOND // 2
    for offset_ns in [*around, DAY, -2 * DAY, 61 * SECOND, before_1970, 0, -30 * SECOND, 0]:
        vdso.move(target.pid, offset_ns)
        assert vdso.offset(target.pid) == offset_ns
        for _ in range(5):
            target.is_ahead(offset_ns)
    other.is_ahead(0)
    assert vdso.offset(other.pid) == 0
    passed = time.time_ns() - real - (time.monotonic_ns() - monotonic)
    assert abs(passed) < SECOND // 2, "this machine's own clock moved"


@pytest.mark.parametrize("offset_ns", [0, -3 * SECOND, DAY])
@pytest.mark.parametrize("rate", [0.5, -0.2, 3.0, -1.0])
def test_a_drift_goes_on_from_the_move(start: Callable[[], Target], offset_ns: int, rate: float) -> None:
    target = start()
    earliest = time.time_ns()
    vdso.move(target.pid, offset_ns, rate)
    latest = time.time_ns()
    for _ in range(3):
        time.sleep(0.05)
        before, reading, after = target.ask("read")
        gained = sorted(rate * (true - base) for true in (before["real"], after["real"]) for base in (earliest, latest))
        # The rate is held in steps of 2**-32, and a float of this size in steps of 2**-20 ns or less.
        assert before["real"] + offset_ns + gained[0] - 2 <= reading["real"]
        assert reading["real"] <= after["real"] + offset_ns + gained[-1] + 2
        said = vdso.offset(target.pid)
        gained = sorted(rate * (true - base) for true in (after["real"], time.time_ns()) for base in (earliest, latest))
        assert gained[0] - 2 <= said - offset_ns <= gained[-1] + 2
        assert before["monotonic"] <= reading["monotonic"] <= after["monotonic"]
    vdso.move(target.pid, 0)
    target.is_ahead(0)


def test_a_forked_child_inherits_and_an_executed_program_does_not(start: Callable[[], Target]) -> None:
    target = start()
    vdso.move(target.pid, -90 * SECOND)
    target.is_ahead(-90 * SECOND, "fork")
    target.is_ahead(0, "exec")
    target.is_ahead(-90 * SECOND)


@pytest.mark.parametrize("offset_ns", [7, -1, 61 * SECOND + 999_999_999, -2 * DAY - 1])
def test_the_functions_agree_and_keep_to_their_abi(readers: Path, offset_ns: int) -> None:
    running = Running(readers, "agree", str(offset_ns))
    vdso.move(running.pid, offset_ns)
    assert running.finish() == "agree"


def test_a_clock_that_is_wrong_would_be_noticed(readers: Path) -> None:
    """Control of the test above."""
    running = Running(readers, "agree", "7000000")
    vdso.move(running.pid, 8_000_000)
    assert running.finish() != "agree"


FIRST = (3600 * SECOND, 0, -10_000)
SECOND_BLOCK = (-7200 * SECOND, vdso.ONE // 2, -20_000)
"""Offset, rate, and base in seconds from now. Ahead by 3600 s and 2800 s; any mixture is off by an hour and more."""


def moved_back_and_forth(readers: Path, times: int) -> list[int]:
    """Return how many readings were correct, showed the first move, the second move, and neither."""
    running = Running(readers, "any", "3600", "2800")
    vdso.move(running.pid, 0)
    with vdso._open_target(running.pid, os.O_RDWR) as target:
        stub = target.image.find(vdso.CODE)
        for _ in range(times):
            for offset_ns, rate, base in (FIRST, SECOND_BLOCK):
                vdso._set(target, stub, offset_ns, rate, time.time_ns() + base * SECOND)
                time.sleep(0.001)
    return [int(word) for word in running.finish().split()]


def test_no_thread_sees_half_a_move(readers: Path) -> None:
    _, first, second, neither = moved_back_and_forth(readers, 100)
    assert neither == 0
    assert min(first, second) > 0


def test_half_a_move_would_be_noticed(readers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: parameters are written one by one into the block in use."""

    def in_place(target: vdso._Target, stub: int, *parameters: int) -> None:
        block = stub + vdso.BLOCKS + vdso.BLOCK * (target.image[stub + vdso.GENERATION] & 1)
        for i, number in enumerate(parameters):
            target.write(block + 8 * i, struct.pack("<q", number))
            time.sleep(0.0005)

    monkeypatch.setattr(vdso, "_set", in_place)
    assert moved_back_and_forth(readers, 50)[3] > 0


def test_a_move_whose_block_is_never_selected_would_be_noticed(
    start: Callable[[], Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control of all tests that read a moved clock."""
    target = start()
    monkeypatch.setattr(vdso, "_select", lambda *_: None)
    vdso.move(target.pid, 5 * SECOND)
    target.is_ahead(0)
    with pytest.raises(AssertionError):
        target.is_ahead(5 * SECOND)


def test_processes_that_read_the_clock_meanwhile_survive(readers: Path) -> None:
    for _ in range(20):
        running = Running(readers, "any", "3600", "2800")
        time.sleep(0.002)
        vdso.move(running.pid, 3600 * SECOND)
        time.sleep(0.1)
        _, first, _, neither = map(int, running.finish().split())
        assert running.process.returncode == 0
        assert first > 0
        assert neither == 0


def test_redis_expires_by_its_moved_clock(tmp_path: Path) -> None:
    program = shutil.which("redis-server")
    assert program, "this test needs redis-server: run .ci/setup"
    # No TCP port, so that no other process can have it.
    place = tmp_path / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(place), "--dir", str(tmp_path), "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while not place.exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            client = redis.Redis(unix_socket_path=str(place))
            client.set("lock", "mine", ex=60)
            vdso.move(process.pid, 61 * SECOND)
            before = time.time_ns()
            seconds, micro = client.time()
            assert before // 1000 <= (seconds - 61) * 10**6 + micro <= time.time_ns() // 1000
            assert client.get("lock") is None
            client.set("lock", "mine", px=1000)
            vdso.move(process.pid, -DAY)
            assert DAY // 10**6 < client.pttl("lock") <= DAY // 10**6 + 62_000
        finally:
            process.kill()


def own_image() -> bytes:
    start, end = vdso._mapping(os.getpid())
    with Path("/proc/self/mem").open("rb") as memory:
        memory.seek(start)
        return memory.read(end - start)


def without(image: bytes, tag: int) -> bytes:
    """Return the image with an unknown tag in place of ``tag`` in its dynamic section."""
    assert image.count(struct.pack("<q", tag)) == 1
    return image.replace(struct.pack("<q", tag), struct.pack("<q", 0x6FFFFEFE))


def test_symbols_are_found_by_either_hash_table(tmp_path: Path) -> None:
    image = own_image()
    file = tmp_path / "vdso.so"
    file.write_bytes(image)
    lines = subprocess.run(["nm", "-D", file], check=True, capture_output=True, text=True).stdout.splitlines()
    expected = {name.partition("@")[0]: int(value, 16) for value, _, name in (line.split() for line in lines)}
    assert vdso.symbols(image) == expected
    assert set(vdso.ROUTINES) <= set(expected)
    by_gnu_hash = image.replace(struct.pack("<qQ", 4, 0x120), struct.pack("<qQ", 0x6FFFFEFE, 0))
    assert vdso.symbols(by_gnu_hash) == expected
    with pytest.raises(ClockError, match="not laid out"):
        vdso.symbols(without(by_gnu_hash, 0x6FFFFEF5))


FAR_AWAY = 0x200
LEA = bytes.fromhex("4c8d15e897ffff")
CMP = bytes.fromhex("813d3a95ffffffffff7f")
NOP5, NOP8 = bytes.fromhex("0f1f440000"), bytes.fromhex("0f1f840000000000")


@pytest.mark.parametrize(
    ("padding", "code", "expected"),
    [
        pytest.param(b"", CMP, ("far", 0, b""), id="a long first instruction"),
        pytest.param(b"", b"\x55" + LEA, ("far", 1, b"\x5d"), id="a long second"),
        pytest.param(NOP8, bytes.fromhex("554889e541565348"), ("near", 1, b"\x5d"), id="a short second"),
        pytest.param(NOP5, bytes.fromhex("83ff177755554889"), ("near", 0, b""), id="a short first"),
        pytest.param(b"\xc3", bytes.fromhex("554889e541565348"), ("far", 0, None), id="no padding: the window remains"),
        pytest.param(NOP8, bytes.fromhex("0fa2c3c3c3c3c3c3"), ("far", 0, None), id="unknown: the window remains"),
    ],
)
def test_a_jump_lies_within_one_instruction(
    padding: bytes, code: bytes, expected: tuple[str, int, bytes | None]
) -> None:
    """The test uses a file as the memory of a process."""
    entry, routine, detour = 0x40, FAR_AWAY, FAR_AWAY + 0x100
    image = bytearray(0x400)
    image[entry - len(padding) : entry] = padding
    image[entry : entry + len(code)] = code
    kind, at, undo = expected
    with tempfile.TemporaryFile() as file:
        file.write(image)
        file.flush()
        vdso._replace(vdso._Target(file.fileno(), 0, image), {"f": entry}, entry, routine, detour)
        file.seek(0)
        after = file.read()
    via = entry + at
    if kind == "near":
        assert after[via] == 0xEB
        via += 2 + struct.unpack_from("b", after, via + 1)[0]
        assert via == entry - 5
    assert after[via : via + 5] == vdso._jump(via, routine if undo is None else detour)
    if undo is not None:
        assert after[detour : detour + len(undo) + 5] == undo + vdso._jump(detour + len(undo), routine)
    assert vdso._is_replaced(image, entry, range(FAR_AWAY, 0x400))
    assert after[entry : entry + at] == code[:at]


def test_processes_without_a_usable_vdso_are_refused(
    start: Callable[[], Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for gone in (ended.pid, 2**22 + 1):
        for act in (lambda pid: vdso.move(pid, 1), vdso.offset):
            with pytest.raises(ClockError, match=f"process {gone} has ended or never existed"):
                act(gone)
    target = start()
    for offset_ns, rate in ((0, -1.1), (0, math.nan), (0, math.inf), (2**63, 0.0), (-(2**64), 0.0)):
        with pytest.raises(ClockError, match=r"expected -1 to 1000|outside the years"):
            vdso.move(target.pid, offset_ns, rate)
    with pytest.raises(ClockError, match="room"):
        vdso._room(bytearray(own_image().rstrip(b"\0")))
    with pytest.raises(ClockError, match="not aligned"):
        vdso._replace(vdso._Target(-1, 0, bytearray(64)), {}, 4, 32, 40)
    with monkeypatch.context() as patch:
        patch.setattr(vdso, "ROUTINES", {"__vdso_strange": 0})
        with pytest.raises(ClockError, match="no __vdso_strange"):
            vdso.move(target.pid, 1)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ClockError, match="x86_64 only; this machine is aarch64"):
        vdso.move(target.pid, 1)
    target.is_ahead(0)


def test_another_users_process_takes_a_capability(start: Callable[[], Target]) -> None:
    target = start()
    script = f"import os; from harness.clusters.docker.helper import vdso; os.setuid(65534); vdso.move({target.pid}, 1)"
    failed = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert "takes root or CAP_SYS_PTRACE" in failed.stderr
    target.is_ahead(0)
