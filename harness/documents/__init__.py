"""The documents that the harness stores or prints, as typed structs: one module a document, and a loader for each that
is stored.

Every field says what it means and its unit. The JSON Schemas in ``docs/schemas`` are made from these structs
(``python -m harness.documents.schemas``). A document of today has schema 1; a key may be added to it, but none removed
or changed without a new number. Keys that this version does not know are ignored.
"""

from .ablation import AblationDocument, AblationOutcome
from .bisect import BisectDocument, load_bisect
from .check import CheckDocument
from .comparison import ComparisonDocument, load_comparison
from .exhaustive import ExhaustiveDocument
from .fidelity import FidelityDocument, load_fidelity
from .hunt import HuntDocument, load_hunt
from .messages import MessageTrace, load_messages
from .nightly import NightlyDocument, load_nightly
from .publication import PublicationDocument, load_publication
from .reading import DocumentError, convert, decode, indented, plain, present
from .run import RunDocument, load_run
from .runs import RunsDocument, SeedRun
from .sweep import SweepDocument, load_sweep
from .trace import TraceDocument
from .trends import TrendsDocument, load_trends
from .versions import VersionsDocument, load_versions

__all__ = [
    "AblationDocument",
    "AblationOutcome",
    "BisectDocument",
    "CheckDocument",
    "ComparisonDocument",
    "DocumentError",
    "ExhaustiveDocument",
    "FidelityDocument",
    "HuntDocument",
    "MessageTrace",
    "NightlyDocument",
    "PublicationDocument",
    "RunDocument",
    "RunsDocument",
    "SeedRun",
    "SweepDocument",
    "TraceDocument",
    "TrendsDocument",
    "VersionsDocument",
    "convert",
    "decode",
    "indented",
    "load_bisect",
    "load_comparison",
    "load_fidelity",
    "load_hunt",
    "load_messages",
    "load_nightly",
    "load_publication",
    "load_run",
    "load_sweep",
    "load_trends",
    "load_versions",
    "plain",
    "present",
]
