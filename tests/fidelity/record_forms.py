"""Record which commands each lock of the catalogue sends in the conformance suite on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from unittest import mock

from harness.lock_impls.base import LockClass
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client


def record_forms(
    locks: tuple[str, ...], handler: type, method: str, form_of: Callable[[Any], str]
) -> dict[str, list[str]]:
    """Run every property of the locks whose names begin so, and return the forms of their commands by lock.

    The last argument of ``handler``'s ``method`` is a command.
    """
    found: dict[str, set[str]] = {}
    execute = getattr(handler, method)
    for case in conformance.cases(*locks):
        lock, prop = cast(tuple[LockClass, conformance.Property], case.values)
        forms = found.setdefault(lock.info.name, set())

        def recording(*arguments: Any, forms: set[str] = forms) -> Any:
            if arguments[-1]:
                forms.add(form_of(arguments[-1]))
            return execute(*arguments)

        with mock.patch.object(handler, method, recording):
            on_a_simulated_client(lock, prop, lock.info.kinds[0])
    return {name: sorted(forms) for name, forms in sorted(found.items())}
