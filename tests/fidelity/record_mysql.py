"""Record the statements that the catalogue's MySQL locks send in the conformance suite on the simulator.

``python -m tests.fidelity.record_mysql`` writes them into the package.
"""

from __future__ import annotations

import json
import re

from harness.fidelity.mysql.statements import VOCABULARY
from harness.sim.servers.mysql.expressions import PARAMETER
from harness.sim.servers.mysql.server import MysqlServer
from harness.sim.servers.mysql.sql import template
from tests.fidelity.record_forms import record_forms

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
    return record_forms(LOCKS, MysqlServer, "execute", form_of)


if __name__ == "__main__":
    VOCABULARY.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
