"""Write the JSON Schemas of the documents: ``python -m harness.documents.schemas``, in the repository.

msgspec makes them from the structs. It does not see the docstrings of fields, so these are read from the source.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.files import write_file

from . import (
    AblationDocument,
    BisectDocument,
    CheckDocument,
    ComparisonDocument,
    ExhaustiveDocument,
    FidelityDocument,
    HuntDocument,
    MessageTrace,
    NightlyDocument,
    PublicationDocument,
    RunDocument,
    RunsDocument,
    SweepDocument,
    TraceDocument,
    TrendsDocument,
    VersionsDocument,
)

FOLDER: Final = Path(__file__).parents[2] / "docs" / "schemas"
DOCUMENTS: Final[dict[str, type[msgspec.Struct]]] = {
    "results": RunDocument,
    "run": RunsDocument,
    "hunt": HuntDocument,
    "nightly": NightlyDocument,
    "comparison": ComparisonDocument,
    "locks": PublicationDocument,
    "sweep": SweepDocument,
    "trends": TrendsDocument,
    "ablation": AblationDocument,
    "bisect": BisectDocument,
    "versions": VersionsDocument,
    "exhaustive": ExhaustiveDocument,
    "check": CheckDocument,
    "fidelity": FidelityDocument,
    "trace": TraceDocument,
    "messages": MessageTrace,
}
"""The documents by the names of their files, or of the command that prints them."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a document, with the docstrings of fields as descriptions."""
    (reference,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    structs = {struct.__name__: struct for struct in structs_of(kind)}
    for name, part in parts.items():
        for field, text in field_docs(structs[name]).items():
            part["properties"][field].setdefault("description", text)
        part["description"] = _one_line(inspect.getdoc(structs[name]) or "")
    return {"$schema": DIALECT, "title": kind.__name__, **reference, "$defs": parts}


def structs_of(kind: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """Return the struct and all structs within it, each once."""
    found: dict[type[msgspec.Struct], None] = {}

    def add(info: msgspec.inspect.Type) -> None:
        match info:
            case msgspec.inspect.StructType():
                if info.cls not in found:
                    found[info.cls] = None
                    for field in info.fields:
                        add(field.type)
            case msgspec.inspect.UnionType():
                for one in info.types:
                    add(one)
            case msgspec.inspect.DictType():
                add(info.value_type)
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
                add(info.item_type)
            case msgspec.inspect.TupleType():
                for one in info.item_types:
                    add(one)

    add(msgspec.inspect.type_info(kind))
    return list(found)


def field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of the struct's own fields, by the names that documents use."""
    encoded = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    return {encoded[name]: text for name, text in _documented(struct) if name in encoded}


def _documented(struct: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    tree = ast.parse(inspect.getsource(struct)).body[0]
    assert isinstance(tree, ast.ClassDef)
    for statement, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            yield statement.target.id, _one_line(after.value.value)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def files() -> dict[str, bytes]:
    """Return the schemas by the names of their files."""
    return {
        f"{name}.schema.json": msgspec.json.format(msgspec.json.encode(schema_of(kind)), indent=2) + b"\n"
        for name, kind in DOCUMENTS.items()
    }


def main() -> int:
    """Write the schemas into the repository's ``docs/schemas``."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in files().items():
        write_file(FOLDER / name, data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
