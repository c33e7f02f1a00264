"""Record the commands that the catalogue's memcached locks send in the conformance suite on the simulator.

``python -m tests.fidelity.record_memcached`` writes them into the package.
"""

from __future__ import annotations

import json

from harness.fidelity.memcached.commands import VOCABULARY
from harness.sim.servers.memcached.commands import STORING, CommandHandler
from tests.fidelity.record_forms import record_forms

LOCKS = ("memcached-", "sherlock-memcached", "tooz-memcached")


def form_of(words: list[bytes]) -> str:
    """Return a command line with names in place of the key, the expiry and other numbers that differ."""
    name, *rest = [word.decode() for word in words]
    roles = ["{key}"] if rest else []
    if words[0] in STORING:
        roles += [rest[1], "-1" if rest[2] == "-1" else "{exptime}", "{length}", *(["{cas}"] if name == "cas" else [])]
    elif name == "touch":
        roles.append("{exptime}")
    elif name in ("incr", "decr"):
        roles.append("{number}")
    return " ".join([name, *roles, *rest[len(roles) :]])


def record() -> dict[str, list[str]]:
    """Run every property of every memcached lock, and return the forms of its commands."""
    return record_forms(LOCKS, CommandHandler, "execute", form_of)


if __name__ == "__main__":
    VOCABULARY.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
