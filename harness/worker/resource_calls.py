"""Calls of the protected resource by a client. Each returns None if it was refused or had no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .interfaces import Grant
from .recorded_calls import RecordedCalls
from .resource import Rejected, Request, ResourceClient, ResourceReply


class ResourceCalls(RecordedCalls):
    """A client as far as it calls the resource, with the fence of its grant."""

    def __init__(self, resource: ResourceClient, **recording: Any) -> None:
        super().__init__(**recording)
        self._resource = resource
        self._shared: set[str] = set()
        """Keys whose lock the client holds shared."""

    def read(self, key: str, grant: Grant) -> Any:
        """Return the resource's value. The request says whether the client holds the lock shared."""
        shared = key in self._shared
        recorded = {"fence": grant.fence, **({"shared": True} if shared else {})}
        reply = self._access(recorded, Request("read", key, grant.fence, shared=shared), lambda r: {"value": r.value})
        return None if reply is None else reply.value

    def write(self, key: str, grant: Grant, value: Any) -> Any:
        """Write ``value`` and return it."""
        recorded = {"fence": grant.fence, "value": value}
        reply = self._access(recorded, Request("write", key, grant.fence, value))
        return None if reply is None else reply.value

    def take(self, key: str, grant: Grant) -> int | None:
        """Sell one unit and return the number left."""
        recorded = {"fence": grant.fence, "n": 1}
        reply = self._access(recorded, Request("take", key, grant.fence), lambda r: {"left": r.value})
        return None if reply is None else reply.value

    def mark(self, key: str, grant: Grant) -> int | None:
        """Mark as processed and return how often that has been done so far."""
        request = Request("mark", key, grant.fence)
        reply = self._access({"fence": grant.fence}, request, lambda r: {"times": r.value})
        return None if reply is None else reply.value

    def look(self, key: str) -> tuple[Any, int] | None:
        """Read without a lock; return the value and its version."""
        answer = self._access({"fence": None}, Request("read", key), lambda r: {"value": r.value, "version": r.version})
        return None if answer is None else (answer.value, answer.version)

    def swap(self, key: str, value: Any, version: int) -> Any:
        """Write without a lock if the version is unchanged; return the value written."""
        request = Request("cas", key, None, value, version)
        reply = self._access({"value": value, "version": version}, request)
        return None if reply is None else reply.value

    def _access(
        self,
        recorded: dict[str, Any],
        request: Request,
        result_of: Callable[[ResourceReply], dict[str, Any]] = lambda _: {},
    ) -> ResourceReply | None:
        """Access the resource. Record ``recorded`` with the request, and ``result_of`` the reply with the answer."""
        f, key = request.op, request.key
        self._enter(f, key, recorded)
        try:
            reply = self._resource.call(request)
        except Rejected as error:
            self._leave("fail", f, key, error=str(error))
            return None
        except OSError as error:
            self._raised(f, key, error)
            return None
        self._leave("ok", f, key, {**result_of(reply), "arrival": reply.arrival})
        return reply
