"""Random memcached commands, as bytes, whose answers do not depend on how long the test takes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

KEYS = [b"a", b"b", b"c", b"lock", b"k" * 250]
VALUES = [b"", b"x", b"10", b"0", b"-3", b"007", b" 5 ", b"18446744073709551615", b"9" * 21, b"a b\r\nc", b"x" * 200]
NUMBERS = [b"0", b"1", b"2", b"5", b"-1", b"x", b"1x", b"+3", b"18446744073709551615", b"18446744073709551616", b"007"]
EXPIRIES = [b"0", b"0", b"0", b"100", b"2592000", b"-1", b"-100", b"4102444800", b"2592001", b"1000", b"+60"]
LENGTHS = [b"-1", b"x", b"4294967295", b"2147483647"]
FLAGS = [b"0", b"0", b"7", b"4294967295", b"-1", b"x"]
TOUCHES = [b"0", b"100", b"-1", b"x", b"2592001"]
LONG = b"k" * 251


class MemcachedCommandGenerator:
    """Generates commands from a seed. cas numbers are chosen from ``seen``, which the caller extends."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.seen: list[int] = [0]
        self.makers: list[Callable[[], bytes]] = [
            getattr(self, name) for name in sorted(dir(type(self))) if name.startswith("make_")
        ]

    def command(self) -> bytes:
        return self.rng.choice(self.makers)()

    def key(self) -> bytes:
        return LONG if self.rng.random() < 0.02 else self.rng.choice(KEYS)

    def quiet(self) -> bytes:
        return b" noreply" if self.rng.random() < 0.15 else b""

    def line(self, *words: bytes) -> bytes:
        chance = self.rng.random()
        if chance < 0.02:
            words = words[:-1]
        elif chance < 0.04:
            words = (*words, self.rng.choice(NUMBERS))
        elif chance < 0.05:
            words = (words[0].upper(), *words[1:])
        gap = b"  " if self.rng.random() < 0.03 else b" "
        return gap.join(words) + self.quiet() + (b"\n" if self.rng.random() < 0.05 else b"\r\n")

    def _storing(self, *names: bytes) -> bytes:
        value = self.rng.choice(VALUES)
        length = str(len(value)).encode()
        if self.rng.random() < 0.03:
            # The line is refused and the data are parsed as commands, or the data end in the wrong place.
            length = self.rng.choice([*LENGTHS, str(max(0, len(value) - 1)).encode()])
        name = self.rng.choice(names)
        flags = self.rng.choice(FLAGS if self.rng.random() < 0.2 else FLAGS[:1])
        words = [name, self.key(), flags, self.rng.choice(EXPIRIES), length]
        if name == b"cas":
            words.append(str(self.rng.choice(self.seen[-4:])).encode() if self.rng.random() < 0.95 else b"x")
        return b" ".join(words) + self.quiet() + b"\r\n" + value + b"\r\n"

    def make_set(self) -> bytes:
        return self._storing(b"set")

    def make_add_or_replace(self) -> bytes:
        return self._storing(b"add", b"replace")

    def make_joined(self) -> bytes:
        return self._storing(b"append", b"prepend")

    def make_cas(self) -> bytes:
        return self._storing(b"cas")

    def make_get(self) -> bytes:
        keys = [self.key() for _ in range(self.rng.randint(1, 4))]
        return self.rng.choice([b"get ", b"gets ", b"gets "]) + b" ".join(keys) + b"\r\n"

    def make_gat(self) -> bytes:
        words = [self.rng.choice([b"gat", b"gats"]), self.rng.choice(TOUCHES), self.key()]
        return b" ".join(words) + b"\r\n"

    def make_delete(self) -> bytes:
        return self.line(b"delete", self.key(), *([b"0"] if self.rng.random() < 0.1 else []))

    def make_count(self) -> bytes:
        return self.line(self.rng.choice([b"incr", b"decr"]), self.key(), self.rng.choice(NUMBERS))

    def make_touch(self) -> bytes:
        return self.line(b"touch", self.key(), self.rng.choice(TOUCHES))

    def make_rare(self) -> bytes:
        if self.rng.random() < 0.7:
            return self.make_get()
        return self.rng.choice(
            [
                b"flush_all\r\n", b"flush_all 0\r\n", b"flush_all -1\r\n", b"flush_all x\r\n", b"flush_all noreply\r\n",
                b"flush_all 0 1\r\n", b"flush_all 1000\r\n", b"flush_all 0 0 0\r\n", b"version\r\n", b"version 1\r\n",
                b"verbosity\r\n", b"verbosity 0\r\n", b"verbosity x\r\n", b"verbosity 0 noreply\r\n",
                b"verbosity 0 1 2\r\n", b"nonsense a\r\n", b"\r\n", b"get\r\n", b"gets\r\n", b"gat\r\n", b"gat 0\r\n",
                b"stats nonsense\r\n", b"shutdown\r\n", b"delete a 1\r\n", b"delete a 0 noreply\r\n",
                b"set big 0 0 1048576\r\n" + b"x" * 1048576 + b"\r\n", b"set a 0 0 1 noise\r\nx\r\n",
                b"add a 0 0 1100000 noreply\r\n" + b"x" * 1100000 + b"\r\n",
            ]
        )  # fmt: skip
