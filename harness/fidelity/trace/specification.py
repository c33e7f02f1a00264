"""What a search needs of a simulated server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from harness.fidelity.simulated import SteppedConnection, SteppedHost
from harness.protocols.messages import Reply, Request
from harness.sim.service import Service

from .conversation import Conversation, Life


class Moment(NamedTuple):
    """Interval of monotonic time in which a request was executed, ns."""

    first_ns: int
    last_ns: int


class Specification(ABC):
    """A simulated server as a search drives it. What is not abstract is so for most servers."""

    @property
    def undecided(self) -> str:
        """Why a real server may give replies that no execution was found for; "" if the simulated one never does."""
        return ""

    def starts(self, life: Life) -> Sequence[int]:  # noqa: ARG002
        """Return what the recording leaves open about a start, the likeliest first, one for each possibility."""
        return (0,)

    @abstractmethod
    def start(self, life: Life, chosen: int) -> None:
        """Start the server, after it was killed if it ran before."""

    @abstractmethod
    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        """Return the readings of the server's clock with which the request may be executed, the likeliest first. None
        is 0."""

    @abstractmethod
    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None: ...

    def passing(self, before_ns: int) -> Sequence[int]:  # noqa: ARG002
        """Return what the server may do before this time without a request, one for each possibility."""
        return ()

    def let_pass(self, chosen: int) -> None:
        """Let the server do one of the things that :meth:`passing` returned."""
        raise NotImplementedError(f"nothing passes without a request: {chosen}")

    @abstractmethod
    def close(self, talk: Conversation) -> None:
        """Close a connection."""

    @abstractmethod
    def sent(self) -> list[tuple[int, bytes]]:
        """Return what the server sent since the last call: connection and message."""

    def waits(self, talk: Conversation) -> bool:  # noqa: ARG002
        """Return whether the server does not read from this connection until it has sent its reply."""
        return False

    @abstractmethod
    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        """Return whether two replies to a request are equal, but for what no specification says."""

    @abstractmethod
    def shown_request(self, request: Request) -> str:
        """Return a request as text."""

    @abstractmethod
    def shown_reply(self, data: bytes) -> str:
        """Return a reply as text."""

    @abstractmethod
    def digest(self) -> Hashable:
        """Return a value that differs for states in which the server may answer differently to any other connection
        than the one that sent the last request."""

    @abstractmethod
    def checkpoint(self) -> Any:
        """Return a copy of the state for :meth:`restore`, None if there can be none at the moment."""

    @abstractmethod
    def restore(self, state: Any) -> None: ...

    def prompt(self, request: Request) -> bool:  # noqa: ARG002
        """Return whether the search first tries to execute the request when it arrives, though its reply may come much
        later. Otherwise it first tries a time shortly before a late reply."""
        return False

    def matters_when_closed(self, talk: Conversation) -> bool:  # noqa: ARG002
        """Return whether the end of this connection may have an effect."""
        return False


C = TypeVar("C", bound=SteppedConnection)


class SteppedSpecification(Specification, Generic[C]):
    """A specification whose server runs on a host of its own, with a connection for each conversation that it knows."""

    HOST: ClassVar[type[SteppedHost]] = SteppedHost

    def __init__(self) -> None:
        self._host: SteppedHost | None = None
        self._talks: dict[int, C] = {}

    def _start_host(self, service: Service, life: Life, wall_ns: int = 0) -> None:
        """Start the server, with its data if the life says so; ``wall_ns`` is its clock at the first start."""
        self._talks.clear()
        if self._host is None:
            self._host = self.HOST(service, wall_ns)
        else:
            self._host.restart(with_data=life.how == "kept")

    def _running(self) -> SteppedHost:
        assert self._host is not None, "the server has not been started"
        return self._host

    def close(self, talk: Conversation) -> None:
        connection = self._talks.pop(talk.number, None)
        if connection is not None:
            connection.hang_up()


class SessionSpecification(SteppedSpecification[SteppedConnection]):
    """A specification of a server of SQL: statements wait for other sessions, and what a session holds ends with it."""

    def waits(self, talk: Conversation) -> bool:
        connection = self._talks.get(talk.number)
        return connection is not None and connection.session.waits

    def prompt(self, request: Request) -> bool:  # noqa: ARG002
        return True

    def matters_when_closed(self, talk: Conversation) -> bool:  # noqa: ARG002
        return True
