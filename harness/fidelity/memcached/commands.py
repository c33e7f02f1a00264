"""Random memcached commands: mostly what lock libraries send, the rest everything that the simulated server implements.

Steps are ``("send", connection, bytes)``; ``("interrupted", connection, line, other connection, bytes, data)``, where
another connection's command arrives between the line of a command and its data; ``("tick", seconds)``; and faults. In
the bytes ``{cas}`` stands for the number that the connection saw last for the command's key, and ``{now}`` for the
server's clock, to which a sign and seconds may be added.

Only one sequence in eight waits for the clock, because memcached's clock ticks once a second. The answers in the others
do not depend on how long they take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from harness.fidelity.comparison import Step

VOCABULARY: Final = Path(__file__).with_name("vocabulary.json")
"""For each lock of the catalogue the forms of its commands. ``tests/fidelity/record_memcached.py`` records them."""
KEYS: Final = (b"a", b"b", b"c", b"lock", b"k" * 250)
VALUES: Final = (
    b"", b"x", b"10", b"0", b"-3", b"007", b" 5 ", b"18446744073709551615", b"9" * 21, b"a b\r\nc", b"x" * 200,
)  # fmt: skip
NUMBERS: Final = (
    b"0", b"1", b"2", b"5", b"-1", b"x", b"1x", b"+3", b"18446744073709551615", b"18446744073709551616", b"007",
)  # fmt: skip
FAR_EXPIRIES: Final = (
    b"0", b"0", b"0", b"100", b"2592000", b"-1", b"-100", b"4102444800", b"2592001", b"1000", b"+60",
)  # fmt: skip
NEAR_EXPIRIES: Final = (
    b"0", b"1", b"1", b"2", b"2", b"3", b"-1", b"{now}", b"{now-1}", b"{now+1}", b"{now+2}", b"{now+3}", b"2592001",
)  # fmt: skip
LENGTHS: Final = (b"-1", b"x", b"4294967295", b"2147483647")
FLAGS: Final = (b"0", b"0", b"7", b"4294967295", b"-1", b"x")
LONG: Final = b"k" * 251
LENGTH: Final = 400
"""Steps of a sequence."""
TIMED_LENGTH: Final = 120
CONNECTIONS: Final = 3
WAITS: Final = 5
"""Steps of a sequence with waits that wait for the clock."""
DELAYED_FLUSHES: Final = (b"flush_all 1\r\n", b"flush_all 2\r\n", b"flush_all 1000\r\n")
RARE: Final = (
    b"flush_all\r\n", b"flush_all 0\r\n", b"flush_all -1\r\n", b"flush_all x\r\n", b"flush_all noreply\r\n",
    b"flush_all 0 1\r\n", b"flush_all 1000\r\n", b"flush_all 0 0 0\r\n", b"version\r\n", b"version 1\r\n",
    b"verbosity\r\n", b"verbosity 0\r\n", b"verbosity x\r\n", b"verbosity 0 noreply\r\n",
    b"verbosity 0 1 2\r\n", b"nonsense a\r\n", b"\r\n", b"get\r\n", b"gets\r\n", b"gat\r\n", b"gat 0\r\n",
    b"stats nonsense\r\n", b"shutdown\r\n", b"delete a 1\r\n", b"delete a 0 noreply\r\n",
    b"set big 0 0 1048576\r\n" + b"x" * 1048576 + b"\r\n", b"set a 0 0 1 noise\r\nx\r\n",
    b"add a 0 0 1100000 noreply\r\n" + b"x" * 1100000 + b"\r\n",
)  # fmt: skip


def lock_commands() -> list[str]:
    """Return the forms of all commands that the catalogue's locks send."""
    found: dict[str, list[str]] = json.loads(VOCABULARY.read_text(encoding="utf-8"))
    return sorted({form for forms in found.values() for form in forms})


def steps(seed: int) -> Sequence[Step]:
    """Return the steps of a seed."""
    return CommandGenerator(seed, timed=seed % 8 == 7).steps()


class CommandGenerator:
    """Generates the steps of a seed. ``timed``: items expire within seconds, and steps wait for the clock."""

    def __init__(self, seed: int, *, timed: bool) -> None:
        self.rng = Random(seed)
        self._flushed = False
        self.timed = timed
        self.expiries = NEAR_EXPIRIES if timed else FAR_EXPIRIES
        self.lock_forms = lock_commands()
        self.makers: list[Callable[[], bytes]] = [
            getattr(self, name) for name in sorted(dir(type(self))) if name.startswith("make_")
        ]

    def steps(self) -> list[Step]:
        length = TIMED_LENGTH if self.timed else LENGTH
        made: list[Step] = []
        waits = set(self.rng.sample(range(length), WAITS)) if self.timed else set()
        restart = self.rng.randrange(length) if self.rng.random() < 0.1 else None
        while len(made) < length:
            if len(made) in waits:
                waits.discard(len(made))
                made.append(self.wait())
            elif restart is not None and len(made) >= restart:
                made.append(("fault", "restart", "without data"))
                restart = None
            else:
                made += self.commands()
        return made

    def wait(self) -> Step:
        if self.rng.random() < 0.25:
            return ("fault", "pause", self.rng.choice([1, 2, 3]))
        return ("tick", self.rng.choice([1, 1, 2]))

    def commands(self) -> list[Step]:
        connection, chance = self.rng.randrange(CONNECTIONS), self.rng.random()
        if chance < 0.03:
            return [self.interrupted(connection)]
        if chance < 0.1:
            together = [self.command() for _ in range(self.rng.randint(2, 4))]
            return [("send", connection, b"".join(one for one in together if len(one) < 1000))]
        return [("send", connection, self.command())]

    def interrupted(self, connection: int) -> Step:
        """Return a command whose data arrive after another connection's command."""
        line, data = self._storing(b"set", b"add", b"replace", b"append").split(b"\r\n", 1)
        other = (connection + 1) % CONNECTIONS
        return ("interrupted", connection, line + b"\r\n", other, self.command(), data)

    def command(self) -> bytes:
        return self.lock_command() if self.rng.random() < 0.55 else self.rng.choice(self.makers)()

    def lock_command(self) -> bytes:
        """Return a command of a lock library with a few keys and owners."""
        form = self.rng.choice(self.lock_forms)
        token = self.rng.choice((b"me", b"you", b"", b"1"))
        parts = {
            "key": self.rng.choice(KEYS[:2]), "exptime": self.rng.choice(self.expiries),
            "length": str(len(token)).encode(), "cas": b"{cas}", "number": self.rng.choice(NUMBERS[:4]),
        }  # fmt: skip
        line = form.encode()
        for name, value in parts.items():
            line = line.replace(b"{%b}" % name.encode(), value)
        return line + b"\r\n" + (token + b"\r\n" if "{length}" in form else b"")

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
        words = [name, self.key(), flags, self.rng.choice(self.expiries), length]
        if name == b"cas":
            words.append(self.rng.choice([b"{cas}"] * 8 + [b"{cas+1}", b"{cas-1}", b"0", b"x"]))
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

    def touch_expiry(self) -> bytes:
        return b"x" if self.rng.random() < 0.1 else self.rng.choice(self.expiries)

    def make_gat(self) -> bytes:
        words = [self.rng.choice([b"gat", b"gats"]), self.touch_expiry(), self.key()]
        return b" ".join(words) + b"\r\n"

    def make_delete(self) -> bytes:
        return self.line(b"delete", self.key(), *([b"0"] if self.rng.random() < 0.1 else []))

    def make_count(self) -> bytes:
        return self.line(self.rng.choice([b"incr", b"decr"]), self.key(), self.rng.choice(NUMBERS))

    def make_touch(self) -> bytes:
        return self.line(b"touch", self.key(), self.touch_expiry())

    def make_rare(self) -> bytes:
        if self.rng.random() < 0.7:
            return self.make_get()
        timed = self.timed and self.rng.random() < 0.3
        command = self.rng.choice(DELAYED_FLUSHES[:2] if timed else RARE)
        if command in DELAYED_FLUSHES and self._flushed:  # it may restore items, unless memcached has deleted them
            return self.make_get()
        self._flushed |= command.startswith(b"flush_all")
        return command
