"""Record the statements that the catalogue's MySQL locks send in the conformance suite on the simulator.

``python -m tests.fidelity.record_mysql`` writes them into the package.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast
from unittest import mock

from harness.fidelity.mysql.statements import VOCABULARY
from harness.lock_impls.base import LockClass
from harness.sim.servers.mysql.expressions import PARAMETER
from harness.sim.servers.mysql.server import MysqlServer
from harness.sim.servers.mysql.session import SqlSession
from harness.sim.servers.mysql.sql import template
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

LOCKS = ("mysql-", "sqlalchemy-")
_SPAN = re.compile(r"-?\d\d:\d\d:\d\d\.\d+")
_MARK = re.compile(f"'{PARAMETER}(\\d+)'")
_NUMBER = re.compile(r"(?<![\w.'])(?<!NOW\()\d+(\.\d+)?(e\d+)?\b(?!')")


def form_of(statement: str) -> str:
    """Return a statement with names in place of the lock's key, its owner, time spans and numbers."""
    text, literals = template(statement)
    text = " ".join(text.split())
    if text.startswith("CREATE"):
        return text
    text = _NUMBER.sub("{number}", text)

    def role(found: re.Match[str]) -> str:
        value = literals[int(found[1])]
        if value.startswith("conformance:"):
            return "{key}"
        if _SPAN.fullmatch(value):
            return "{span}"
        return "{owner}" if value else "''"

    return _MARK.sub(role, text)


def record() -> dict[str, list[str]]:
    """Run every property of every MySQL lock, and return the forms of its statements."""
    found: dict[str, set[str]] = {}
    execute = MysqlServer.execute
    for case in conformance.cases(*LOCKS):
        lock, prop = cast(tuple[LockClass, conformance.Property], case.values)
        forms = found.setdefault(lock.info.name, set())

        def recording(server: MysqlServer, session: SqlSession, text: str, forms: set[str] = forms) -> Any:
            forms.add(form_of(text))
            return execute(server, session, text)

        with mock.patch.object(MysqlServer, "execute", recording):
            on_a_simulated_client(lock, prop, lock.info.kinds[0])
    return {name: sorted(forms) for name, forms in sorted(found.items())}


if __name__ == "__main__":
    VOCABULARY.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
