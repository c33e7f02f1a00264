"""Checks that a folder of results holds whole files only."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path


def half_files(folder: Path) -> list[str]:
    """Return what is wrong with files under ``folder`` that are not whole."""
    return [f"{path.relative_to(folder)}: {why}" for path in sorted(folder.rglob("*")) if (why := _flaw(path))]


def _flaw(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    data = path.read_bytes()
    try:
        match path.suffix:
            case ".json":
                json.loads(data)
            case ".toml":
                if not tomllib.loads(data.decode()):
                    return "empty"
            case ".jsonl":
                for line in data.splitlines():
                    json.loads(line)
            case ".html" | ".svg" if not data.rstrip().endswith((b"</html>", b"</svg>")):
                return "no end"
            case ".png" if not data.endswith(b"IEND\xaeB\x60\x82"):
                return "no end"
            case ".part":
                return "left behind"
    except ValueError as error:
        return str(error)
    return ""
