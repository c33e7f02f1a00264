"""System variables of the simulated MySQL that clients read and set, with the defaults of MariaDB 10.11.

Source: https://mariadb.com/kb/en/server-system-variables/. Only ``autocommit``, the time-outs, ``read_only`` and the
isolation level have an effect.
"""

from __future__ import annotations

from typing import Any, Final

from .errors import SqlError
from .protocol import VERSION
from .values import Value, to_number

DEFAULTS: Final[dict[str, Value]] = {
    "autocommit": 1,
    "innodb_lock_wait_timeout": 50,
    "wait_timeout": 28800,
    "interactive_timeout": 28800,
    "lock_wait_timeout": 86400,
    "lower_case_table_names": 0,
    "tx_isolation": "REPEATABLE-READ",
    "read_only": 0,
    "sql_mode": "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
    "version": VERSION,
    "version_comment": "simulated",
    "time_zone": "SYSTEM",
    "system_time_zone": "UTC",
    "max_allowed_packet": 16777216,
    "innodb_rollback_on_timeout": 0,
    "innodb_deadlock_detect": 1,
    "innodb_autoinc_lock_mode": 1,
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_results": "utf8mb4",
    "collation_connection": "utf8mb4_general_ci",
    "net_read_timeout": 30,
    "net_write_timeout": 60,
    "hostname": "",
    "server_id": 1,
    "timestamp": 0,
    "foreign_key_checks": 1,
    "unique_checks": 1,
}
_ALIASES: Final = {"transaction_isolation": "tx_isolation"}
_GLOBAL_ONLY: Final = (
    "read_only", "version", "hostname", "server_id", "innodb_rollback_on_timeout", "lower_case_table_names",
)  # fmt: skip
_SWITCHES: Final = ("autocommit", "read_only", "foreign_key_checks", "unique_checks")
_LEVELS: Final = ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")


def known(name: str) -> str:
    """Return the name under which a variable is stored. Raises SqlError 1193 if it is unknown."""
    found = _ALIASES.get(name.lower(), name.lower())
    if found not in DEFAULTS:
        raise SqlError(1193, name)
    return found


def is_global(name: str) -> bool:
    return name in _GLOBAL_ONLY


def checked(name: str, value: Any) -> Value:
    """Validate and convert a value for a variable. Raises SqlError 1231 or 1232."""
    if value is None:
        raise SqlError(1232 if isinstance(DEFAULTS[name], int) and name not in _SWITCHES else 1231, name, "NULL")
    if name in _SWITCHES:
        words: dict[Any, int] = {"ON": 1, "OFF": 0, "TRUE": 1, "FALSE": 0, 1: 1, 0: 0, "1": 1, "0": 0}
        found = words.get(value.upper() if isinstance(value, str) else value)
        if found is None:
            raise SqlError(1231, name, value)
        return found
    if name == "tx_isolation":
        level = str(value).upper()
        if level not in _LEVELS:
            raise SqlError(1231, name, value)
        return level
    if isinstance(DEFAULTS[name], int):
        if isinstance(value, str):
            raise SqlError(1232, name)
        return max(int(to_number(value)), 0 if name.startswith("innodb") else 1)
    return str(value)
