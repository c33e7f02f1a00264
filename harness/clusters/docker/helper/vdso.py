"""Change the wall clock of one running process by patching its copy of the kernel's vDSO.

Every process maps the kernel's vDSO, a small shared object, as private pages, and glibc, the JVM and the Go runtime ask
it for the time. ``move`` puts the routine of ``vdso_x86_64.S`` into the zero tail of that mapping and lets the three
functions that tell the wall clock jump there. It writes through ``/proc/PID/mem``, which goes through the read-only
mapping to a copy that only this process sees. Nothing is stopped.

A forked child inherits the clock; a newly executed program has the true one. A program sees the true clock if it makes
the system call itself, asks for CLOCK_TAI, or lets the kernel wait until a wall-clock time. CLOCK_MONOTONIC is not
touched.

One mover at a time: the helper is the only one on its machine, and its threads wait for each other.
"""

from __future__ import annotations

import os
import platform
import re
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CODE = bytes.fromhex(
    "83ff05740c85ff7408b8e40000000f05c356e8560000005f72094889074889570831c0c34885ff741f565731ffe83b0000005f5e72224889"
    "0789d031d2b9e8030000f7f14889470831c04885f6740931ffb8600000000f05c35731ffe80c0000005f72084885ff7403488907c3488d74"
    "24f0b8e40000000f054885c0756548694424f000ca9a3b48034424f8440fb605540000004489c283e201c1e2054c8d0d4c0000004901d14d"
    "8b114d8b5908498b4910443a052f00000075d14901c24829c849f7eb480facd0204c01d04899b900ca9a3b48f7f94885d279064801ca48ff"
    "c8f8c3f9c30f1f00"
)
"""The routine, assembled from vdso_x86_64.S without its data; a test compares the two."""
GENERATION, BLOCKS, BLOCK, END = 0xE8, 0xF0, 32, 0x130
"""Layout of its data: a byte whose lowest bit selects the active block, then two blocks of size BLOCK."""
ROUTINES = {"__vdso_clock_gettime": 0x00, "__vdso_gettimeofday": 0x24, "__vdso_time": 0x59}
"""Functions of the vDSO, each with the offset in CODE of its replacement."""
DETOUR = 32
"""Bytes behind the data, for each function, for code that undoes the pushes before the jump."""
SIZE = END + DETOUR * len(ROUTINES)

ONE = 2**32
"""The rate at which a clock gains one second per second."""
FURTHEST = 2**63 - 2**60
"""Maximum time, in ns since 1970, that leaves the routine's 64-bit values room to drift: the year 2225."""

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
_FAR, _NEAR = 5, 2
"""Bytes of a jump to anywhere in the mapping, and of a jump within 127 bytes."""
_PADDING = re.compile(
    rb"(?:\xcc|[\x66\x2e]*(?:\x90|\x0f\x1f(?:\x00|\x40\x00|\x44\x00\x00|\x80\x00{4}|\x84\x00{5})))+", re.DOTALL
)
"""Instructions with which assemblers align functions."""

_MOVING = threading.Lock()
"""Only one thread moves a clock at a time: two could both install the routine, or overwrite each other's block."""


class ClockError(Exception):
    """The clock of a process cannot be moved or read; the message names the process and the reason."""


class MemoryGone(ClockError):
    """The process has ended or is ending, or its program was replaced at this moment."""


def move(pid: int, offset_ns: int, rate: float = 0.0) -> None:
    """Let the process's CLOCK_REALTIME read true time + ``offset_ns`` + ``rate`` * (time since this call).

    ``rate`` is in seconds gained per second, at least -1 (a clock that stands still). Raises ClockError if it fails.
    """
    now = time.time_ns()
    if abs(now + offset_ns) >= FURTHEST:
        raise ClockError(f"an offset of {offset_ns} ns sets the clock outside the years 1715 to 2225")
    if not -1 <= rate <= 1000:
        raise ClockError(f"a clock cannot gain {rate} seconds per second: expected -1 to 1000")
    with _MOVING, _open_target(pid, os.O_RDWR) as target:
        stub = _ensure_installed(target)
        _set(target, stub, offset_ns, round(rate * ONE), time.time_ns())


def offset(pid: int) -> int:
    """Return how many ns the process's CLOCK_REALTIME is ahead of true time; 0 if it was never moved."""
    with _open_target(pid, os.O_RDONLY) as target:
        stub = target.image.find(CODE)
        if stub < 0:
            return 0
        in_use = stub + BLOCKS + BLOCK * (target.image[stub + GENERATION] & 1)
        ahead, rate, base = struct.unpack_from("<3q", target.image, in_use)
        return int(ahead + ((time.time_ns() - base) * rate >> 32))


class _Target:
    """The vDSO of a process. ``image`` is its memory when it was opened, updated with our writes."""

    def __init__(self, memory: int, base: int, image: bytearray) -> None:
        self.memory, self.base, self.image = memory, base, image

    def write(self, at: int, data: bytes) -> None:
        """Write at an offset of the image; raises OSError if the kernel refuses."""
        if os.pwrite(self.memory, data, self.base + at) != len(data):
            raise ProcessLookupError
        self.image[at : at + len(data)] = data


@contextmanager
def _open_target(pid: int, flags: int) -> Iterator[_Target]:
    if platform.machine() != "x86_64":
        raise ClockError(f"clocks of processes can be moved on x86_64 only; this machine is {platform.machine()}")
    try:
        # Open before looking up the mappings: if the program is replaced in between, this file keeps the old memory,
        # and a write to it fails instead of changing the new memory at a wrong place.
        memory = os.open(f"/proc/{pid}/mem", flags)
        try:
            start, end = _mapping(pid)
            image = bytearray(os.pread(memory, end - start, start))
            if len(image) != end - start:
                raise ProcessLookupError
            if image[:5] != b"\x7fELF\x02":
                raise ClockError(f"process {pid} has no 64-bit vDSO: only x86-64 programs can be moved")
            yield _Target(memory, start, image)
        finally:
            os.close(memory)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise MemoryGone(f"process {pid} has ended or never existed") from error
    except PermissionError as error:
        raise ClockError(f"no access to the memory of process {pid}: that takes root or CAP_SYS_PTRACE") from error
    except OSError as error:
        raise ClockError(f"the kernel refuses access to the vDSO of process {pid}: {error.strerror}") from error


def _mapping(pid: int) -> tuple[int, int]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    if not lines:
        raise ProcessLookupError
    for line in lines:
        if line.endswith("[vdso]"):
            span, permissions, *_ = line.split()
            if not permissions.endswith("p"):  # a shared page: a write would move other clocks too
                raise ClockError(f"process {pid} does not have a vDSO of its own")
            start, end = (int(address, 16) for address in span.split("-"))
            return start, end
    raise ClockError(f"process {pid} has no vDSO (the kernel runs with vdso=0, or its program unmapped it)")


def _set(target: _Target, stub: int, offset_ns: int, rate: int, base: int) -> None:
    """Write the inactive block, then the byte that selects it; see vdso_x86_64.S."""
    generation = (target.image[stub + GENERATION] + 1) & 0xFF
    target.write(stub + BLOCKS + BLOCK * (generation & 1), struct.pack("<3q", offset_ns, rate, base))
    _select(target, stub, generation)


def _select(target: _Target, stub: int, generation: int) -> None:
    target.write(stub + GENERATION, bytes([generation]))


def _ensure_installed(target: _Target) -> int:
    """Install the routine unless it is installed, and return its offset in the image.

    Its initial parameters change nothing, because the three functions are replaced one after the other and must agree
    meanwhile. An installation that was interrupted half-way is completed.
    """
    stub = target.image.find(CODE)
    if stub < 0:
        stub = _room(target.image)
        target.write(stub, CODE.ljust(SIZE, b"\0"))
    starts: dict[str, int] = {}
    for number, (name, routine) in enumerate(ROUTINES.items()):
        starts = starts or symbols(bytes(target.image))
        if name not in starts:
            raise ClockError(f"this kernel's vDSO has no {name}")
        if not _is_replaced(target.image, starts[name], range(stub, stub + SIZE)):
            _replace(target, starts, starts[name], stub + routine, stub + END + DETOUR * number)
    return stub


def _room(image: bytearray) -> int:
    """Return the offset of the zero tail behind all contents of the ELF file."""
    sections, size, count = *struct.unpack_from("<Q", image, 40), *struct.unpack_from("<2H", image, 58)
    used: int = max(len(image.rstrip(b"\0")), sections + size * count)
    start = (used + 63) // 64 * 64
    if start + SIZE > len(image):
        raise ClockError(f"this kernel's vDSO has {max(len(image) - start, 0)} bytes of room; {SIZE} are needed")
    return start


def symbols(image: bytes) -> dict[str, int]:
    """Return the dynamic symbols of an ELF64 shared object by name, as offsets into ``image``; raises ClockError if it
    is not one."""
    try:
        table, count = *struct.unpack_from("<Q", image, 32), *struct.unpack_from("<H", image, 56)
        headers = [struct.unpack_from("<IIQQQQQQ", image, table + 56 * i) for i in range(count)]
        bias = next(header[3] - header[2] for header in headers if header[0] == _PT_LOAD)
        at, length = next((header[2], header[5]) for header in headers if header[0] == _PT_DYNAMIC)
        dynamic = dict(struct.iter_unpack("<qQ", image[at : at + length // 16 * 16]))
        names = dynamic[_DT_STRTAB] - bias
        found = {}
        for i in range(_symbol_count(image, dynamic, bias)):
            name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", image, dynamic[_DT_SYMTAB] - bias + 24 * i)
            if section:
                found[image[names + name : image.index(b"\0", names + name)].decode()] = value - bias
        return found
    except (struct.error, StopIteration, KeyError, ValueError) as error:
        raise ClockError("this kernel's vDSO is not laid out as an ELF shared object") from error


def _symbol_count(image: bytes, dynamic: dict[int, int], bias: int) -> int:
    """Return the number of symbols, which only the hash tables tell.

    Newer kernels have DT_GNU_HASH only. There the last symbol is the end (lowest bit set) of the chain that starts
    last.
    """
    if _DT_HASH in dynamic:
        return int(struct.unpack_from("<2I", image, dynamic[_DT_HASH] - bias)[1])
    at = dynamic[_DT_GNU_HASH] - bias
    buckets, first, bloom, _ = struct.unpack_from("<4I", image, at)
    at += 16 + 8 * bloom
    last: int = max(struct.unpack_from(f"<{buckets}I", image, at), default=0)
    if last < first:
        return int(first)
    while not struct.unpack_from("<I", image, at + 4 * (buckets + last - first))[0] & 1:
        last += 1
    return last + 1


def _jump(at: int, to: int) -> bytes:
    return b"\xe9" + struct.pack("<i", to - at - _FAR)


def _is_replaced(image: bytearray, entry: int, stub: range) -> bool:
    """Return True if one of our jumps is among the bytes that ``_replace`` may have written."""
    for at in range(entry, entry + 8):
        via = at + _NEAR + int.from_bytes(image[at + 1 : at + 2], "little", signed=True) if image[at] == 0xEB else at
        if image[via] == 0xE9 and via + _FAR + struct.unpack_from("<i", image, via + 1)[0] in stub:
            return True
    return False


def _replace(target: _Target, starts: dict[str, int], entry: int, routine: int, detour: int) -> None:
    """Make the function at ``entry`` jump to ``routine``, with one aligned 8-byte write.

    A thread may be suspended at any instruction meanwhile. So the jump must lie within ONE old instruction: if it
    covered two, that thread would resume in the middle of the jump. If the first instruction is too short (push rbp), a
    later one is overwritten, and the detour undoes the instructions before it.
    """
    image, at, undo = target.image, entry, b""
    while length := _length(image, at):
        padding = _padding_near(image, starts, at)
        if at % 8 + _FAR <= 8 and length >= _FAR:
            target.write(detour, undo + _jump(detour + len(undo), routine))
            return _write_word(target, at, _jump(at, detour))
        if at % 8 + _NEAR <= 8 and length >= _NEAR and padding is not None:
            target.write(detour, undo + _jump(detour + len(undo), routine))
            target.write(padding, _jump(padding, detour))
            return _write_word(target, at, b"\xeb" + struct.pack("b", padding - at - _NEAR))
        undone = _undone(image[at : at + length], undo)
        if undone is None:
            break
        undo, at = undone + undo, at + length
    # The function begins in an unknown way. A thread is at risk for a few instructions only; 400 of 400 processes that
    # read the clock all the time survived it.
    if entry % 8 + _FAR > 8:
        raise ClockError(f"a function of this kernel's vDSO is not aligned: offset {entry:#x}")
    return _write_word(target, entry, _jump(entry, routine))


def _write_word(target: _Target, at: int, jump: bytes) -> None:
    """Write an aligned word, so that every thread sees all of the jump or nothing."""
    word, inside = target.image[at - at % 8 :][:8], at % 8
    word[inside : inside + len(jump)] = jump
    target.write(at - inside, bytes(word))


def _padding_near(image: bytearray, starts: dict[str, int], at: int) -> int | None:
    """Return five unused bytes before some function, within reach of a near jump at ``at``; None if there are none."""
    for start in starts.values():
        if -128 <= start - _FAR - at - _NEAR <= 127 and any(
            _PADDING.fullmatch(image, start - n, start) for n in range(_FAR, 16)
        ):
            return start - _FAR
    return None


def _length(image: bytearray, at: int) -> int | None:
    """Return the length of the instruction at ``at``, or None if functions of the vDSO do not begin with its kind.

    Source: Intel's Software Developer's Manual, volume 2, chapter 2: prefix, opcode, ModRM, SIB, displacement,
    immediate.
    """
    if image[at : at + 4] == b"\xf3\x0f\x1e\xfa":  # endbr64
        return 4
    rex = 1 if image[at] & 0xF0 == 0x40 else 0
    opcode, modrm, sib = image[at + rex : at + rex + 3]
    if opcode & 0xF8 == 0x50:  # push
        return rex + 1
    if opcode == 0xE9:
        return _FAR
    if opcode & 0xF8 == 0xB8 and not (rex and image[at] & 8):  # mov r32, imm32
        return rex + 5
    if opcode in (0x81, 0x83):  # cmp, and, sub ... with an immediate
        immediate = 4 if opcode == 0x81 else 1
    elif opcode in (0x31, 0x33, 0x39, 0x3B, 0x63, 0x85, 0x89, 0x8B, 0x8D):  # xor, cmp, movsxd, test, mov, lea
        immediate = 0
    else:
        return None
    mode, base = modrm >> 6, modrm & 7
    with_sib = mode != 3 and base == 4
    wide = mode == 2 or (mode == 0 and (sib & 7 if with_sib else base) == 5)
    return rex + 2 + with_sib + (4 if wide else mode == 1) + immediate


def _undone(instruction: bytes | bytearray, undo: bytes) -> bytes | None:
    """Return code that undoes ``instruction`` if ``undo`` runs after it; None if that is unknown."""
    if instruction == b"\xf3\x0f\x1e\xfa":
        return b""
    if instruction == b"\x48\x89\xe5" and b"\x5d" in undo:  # mov rbp, rsp, after push rbp
        return b""
    if (
        instruction[-1] & 0xF8 == 0x50 and len(instruction) <= 2 and instruction != b"\x54"
    ):  # push, except of rsp itself
        return bytes(instruction[:-1]) + bytes([instruction[-1] + 8])
    return None
