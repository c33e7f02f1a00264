"""What a search needs of a simulated server."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from .conversation import Conversation, Life, Reply, Request


class Moment(NamedTuple):
    """Interval of monotonic time in which a request was executed, ns."""

    first_ns: int
    last_ns: int


class Specification(Protocol):
    """A simulated server as a search drives it."""

    @property
    def undecided(self) -> str:
        """Why a real server may give replies that no execution was found for; "" if the simulated one never does."""

    def starts(self, life: Life) -> Sequence[int]:
        """Return what the recording leaves open about a start, the likeliest first, one for each possibility."""

    def start(self, life: Life, chosen: int) -> None:
        """Start the server, after it was killed if it ran before."""

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        """Return the readings of the server's clock with which the request may be executed, the likeliest first. None
        is 0."""

    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None: ...

    def passing(self, before_ns: int) -> Sequence[int]:
        """Return what the server may do before this time without a request, one for each possibility."""

    def let_pass(self, chosen: int) -> None:
        """Let the server do one of the things that :meth:`passing` returned."""

    def close(self, talk: Conversation) -> None:
        """Close a connection."""

    def sent(self) -> list[tuple[int, bytes]]:
        """Return what the server sent since the last call: connection and message."""

    def waits(self, talk: Conversation) -> bool:
        """Return whether the server does not read from this connection until it has sent its reply."""

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        """Return whether two replies to a request are equal, but for what no specification says."""

    def shown_request(self, request: Request) -> str:
        """Return a request as text."""

    def shown_reply(self, data: bytes) -> str:
        """Return a reply as text."""

    def digest(self) -> Hashable:
        """Return a value that differs for states in which the server may answer differently to any other connection
        than the one that sent the last request."""

    def checkpoint(self) -> Any:
        """Return a copy of the state for :meth:`restore`, None if there can be none at the moment."""

    def restore(self, state: Any) -> None: ...

    def prompt(self, request: Request) -> bool:
        """Return whether the request is executed when it arrives, though its reply may come much later."""

    def matters_when_closed(self, talk: Conversation) -> bool:
        """Return whether the end of this connection may have an effect."""
