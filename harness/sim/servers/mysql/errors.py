"""SQL errors of the simulated MySQL: the numbers, SQLSTATEs and texts of MariaDB 10.11.

Source: https://mariadb.com/kb/en/mariadb-error-code-reference/. Abstracted: warnings.
"""

from __future__ import annotations

from typing import Final

LOCK_WAIT_TIMEOUT: Final = 1205
DEADLOCK: Final = 1213
DUPLICATE: Final = 1062
INTERRUPTED: Final = 1317
KILLED: Final = 1927
UNSUPPORTED: Final = 1235
UNKNOWN_COMMAND: Final = 1047
NAME_TOO_LONG: Final = 1059
ILLEGAL_TYPE: Final = 4079

_TEXTS: Final[dict[int, tuple[str, str]]] = {
    1045: ("28000", "Access denied for user '{}'@'{}' (using password: {})"),
    1046: ("3D000", "No database selected"),
    1047: ("08S01", "Unknown command"),
    1048: ("23000", "Column '{}' cannot be null"),
    1049: ("42000", "Unknown database '{}'"),
    1050: ("42S01", "Table '{}' already exists"),
    1051: ("42S02", "Unknown table '{}'"),
    1052: ("23000", "Column '{}' in {} is ambiguous"),
    1054: ("42S22", "Unknown column '{}' in '{}'"),
    1059: ("42000", "Identifier name '{}' is too long"),
    1060: ("42S21", "Duplicate column name '{}'"),
    1061: ("42000", "Duplicate key name '{}'"),
    1062: ("23000", "Duplicate entry '{}' for key '{}'"),
    1064: ("42000", "You have an error in your SQL syntax near '{}'"),
    1068: ("42000", "Multiple primary key defined"),
    1072: ("42000", "Key column '{}' doesn't exist in table"),
    1075: ("42000", "Incorrect table definition; there can be only one auto column and it must be defined as a key"),
    1094: ("HY000", "Unknown thread id: {}"),
    1110: ("42000", "Column '{}' specified twice"),
    1136: ("21S01", "Column count doesn't match value count at row {}"),
    1146: ("42S02", "Table '{}.{}' doesn't exist"),
    1193: ("HY000", "Unknown system variable '{}'"),
    1205: ("HY000", "Lock wait timeout exceeded; try restarting transaction"),
    1213: ("40001", "Deadlock found when trying to get lock; try restarting transaction"),
    1231: ("42000", "Variable '{}' can't be set to the value of '{}'"),
    1232: ("42000", "Incorrect argument type to variable '{}'"),
    1235: ("42000", "This simulated server doesn't yet support '{}'"),
    1264: ("22003", "Out of range value for column '{}' at row {}"),
    1290: ("HY000", "The MariaDB server is running with the --read-only option so it cannot execute this statement"),
    1292: ("22007", "Incorrect datetime value: '{}' for column `{}`.`{}`.`{}` at row {}"),
    1305: ("42000", "FUNCTION {} does not exist"),
    1317: ("70100", "Query execution was interrupted"),
    1364: ("HY000", "Field '{}' doesn't have a default value"),
    1366: ("22007", "Incorrect {} value: '{}' for column `{}`.`{}`.`{}` at row {}"),
    1406: ("22001", "Data too long for column '{}' at row {}"),
    1582: ("42000", "Incorrect parameter count in the call to native function '{}'"),
    1690: ("22003", "{} value is out of range in '{}'"),
    1927: ("70100", "Connection was killed"),
    4079: ("HY000", "Illegal parameter data type {} for operation '{}'"),
}

_LACKING: Final = {
    UNSUPPORTED: "{} in MariaDB's SQL",
    UNKNOWN_COMMAND: "a command of MariaDB's protocol",
    1193: "the system variable {}",
    1305: "the SQL function {}",
}
"""What the server lacks, by the error. The real server may have a variable or a function that is unknown here."""


class SqlError(Exception):
    """The failure of a statement: error ``number``, SQLSTATE ``state`` (five characters) and ``text``.

    ``parts`` are filled into the error's text. ``lacks`` says what this server lacks and the real one may have; it is
    empty for an error that the real server has too.
    """

    def __init__(self, number: int, *parts: object) -> None:
        self.number = number
        self.state, text = _TEXTS[number]
        self.text = text.format(*parts)
        self.lacks = _LACKING.get(number, "").format(*parts)
        super().__init__(f"({number}) {self.text}")
