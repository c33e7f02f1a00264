"""Record the commands that the catalogue's memcached locks send in the conformance suite on the simulator.

``python -m tests.fidelity.record_memcached`` writes them into the package.
"""

from __future__ import annotations

import json
from typing import cast
from unittest import mock

from harness.fidelity.memcached.commands import VOCABULARY
from harness.lock_impls.base import LockClass
from harness.sim.servers.memcached.commands import STORING, CommandHandler, DataBlock
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

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
    found: dict[str, set[str]] = {}
    execute = CommandHandler.execute
    for case in conformance.cases(*LOCKS):
        lock, prop = cast(tuple[LockClass, conformance.Property], case.values)
        forms = found.setdefault(lock.info.name, set())

        def recording(handler: CommandHandler, words: list[bytes], forms: set[str] = forms) -> bytes | DataBlock:
            if words:
                forms.add(form_of(words))
            return execute(handler, words)

        with mock.patch.object(CommandHandler, "execute", recording):
            on_a_simulated_client(lock, prop, lock.info.kinds[0])
    return {name: sorted(forms) for name, forms in sorted(found.items())}


if __name__ == "__main__":
    VOCABULARY.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
