"""HTTP/1.1 requests, as the simulated servers receive them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request; ``target`` is the path with its query, as it was sent."""

    method: str
    target: str
    body: bytes

    def query(self) -> dict[str, str]:
        """Return the fields of the address."""
        return _first(parse_qs(urlsplit(self.target).query, keep_blank_values=True))

    def form(self) -> dict[str, str]:
        """Return the fields of the address and of a form in the body; those of the body override those of the
        address."""
        return {**self.query(), **_first(parse_qs(self.body.decode(), keep_blank_values=True))}


def _first(fields: dict[str, list[str]]) -> dict[str, str]:
    return {name: values[0] for name, values in fields.items()}


def parse_requests(data: bytes) -> tuple[list[HttpRequest], bytes]:
    """Return the complete requests at the start of ``data``, and the remaining bytes."""
    found = []
    while b"\r\n\r\n" in data:
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(fields.get("content-length", "0"))
        if len(rest) < size:
            break
        method, target, *_ = first.split(" ")
        found.append(HttpRequest(method, target, rest[:size]))
        data = rest[size:]
    return found, data
