"""Read the holder of a lock from a key-value bucket of NATS JetStream."""

from __future__ import annotations

import asyncio
from typing import Any

import nats
from nats.errors import Error
from nats.js.errors import NotFoundError

from harness.clusters.docker.kinds import ANSWER_S
from harness.clusters.key_watch import NoAnswer
from harness.history.lock_keys import KeyObservation, owner_text


class NatsKeyReader:
    """Reads the last value of the key through one server, which asks the bucket's leader. The bucket is any one that
    has a key of this name. A key's end is not read: each server deletes it when it is older than the bucket allows."""

    def __init__(self, address: str, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._streams: dict[str, str] = {}
        where = f"nats://{address}:{port}"
        try:
            self._client: Any = self._run(
                nats.connect(where, connect_timeout=ANSWER_S, allow_reconnect=False, error_cb=_ignore)
            )
        except BaseException:
            self._loop.close()
            raise
        self._jetstream: Any = self._client.jetstream(timeout=ANSWER_S)

    def look(self, key: str) -> KeyObservation | None:
        try:
            message = self._run(self._last(key))
        except NotFoundError:
            self._streams.pop(key, None)
            return None
        owner = owner_text(message.data or b"")
        deleted = "KV-Operation" in (message.headers or {})
        return None if deleted else KeyObservation(owner or "held")

    async def _last(self, key: str) -> Any:
        if key not in self._streams:
            self._streams[key] = await self._jetstream.find_stream_name_by_subject(f"$KV.*.{key}")
        bucket = self._streams[key].removeprefix("KV_")
        return await self._jetstream.get_last_msg(self._streams[key], f"$KV.{bucket}.{key}")

    def _run(self, request: Any) -> Any:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(request, 2 * ANSWER_S))
        except NotFoundError:
            raise
        except (Error, OSError, TimeoutError) as error:
            raise NoAnswer from error

    def close(self) -> None:
        try:
            self._run(self._client.close())
        finally:
            self._loop.close()


async def _ignore(error: Exception) -> None:
    """Handle an error of the connection, which the requests report as well."""
