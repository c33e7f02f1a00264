"""A model of SET NX PX: two clients, one Redis, one resource, and at most one pause that outlasts the ttl, or one
jump of the Redis clock.

The model is independent of the simulator, to check the counts of the exhaustive search. Each client sends a request,
a server answers it, and the client sends its next request after the answer. A client whose acquire fails ends. Moves
touch a client, a server, the line for a client's requests and answers, and the log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

WHOLE = ("lock", "read", "write", "unlock")
SHORT = ("lock", "unlock")
AT = {"lock": "redis", "unlock": "redis", "read": "store", "write": "store"}


class Client(NamedTuple):
    """A client; ``where`` is outside, asked (the request is under way), told (the answer is under way), heard (the
    answer came during a pause), halted (paused between an answer and the next request), or gone."""

    at: int = 0
    where: str = "outside"
    yes: bool = False
    holds: bool = False


class State(NamedTuple):
    clients: tuple[Client, ...]
    owner: int | None = None
    pause: str = "none"
    """none, long (time must pass before it ends), over, or spent."""
    paused: int | None = None
    jumped: bool = False
    both: bool = False
    """Did two clients ever hold the lock at once?"""


class Move(NamedTuple):
    name: str
    touches: frozenset[str]
    then: State


class Token:
    """The model; ``requests`` are a client's requests in order. At most one of ``pauses`` and ``jumps`` may be 1."""

    def __init__(self, requests: tuple[str, ...], pauses: int, clients: int = 2, *, jumps: int = 0) -> None:
        self.requests = requests
        self.jumps = jumps
        self.first = State((Client(),) * clients, pause="none" if pauses else "spent")

    def moves(self, state: State) -> Iterator[Move]:
        for number, client in enumerate(state.clients):
            yield from self._moves_of(state, number, client)
        me = f"client {state.paused}"
        if self.jumps and not state.jumped and any(one.where not in ("outside", "gone") for one in state.clients):
            yield Move("jump", frozenset({"redis", "log"}), state._replace(owner=None, jumped=True))
        if state.pause == "long" and not any(client.where in ("asked", "told") for client in state.clients):
            yield Move("wait", frozenset("*"), state._replace(pause="over", owner=None))
        if state.pause == "over" and state.paused is not None:
            client = state.clients[state.paused]
            on = state._replace(pause="spent", paused=None)
            if client.where == "heard":
                on = self._answered(on, state.paused)
            elif client.where == "halted":
                on = self._asks(on, state.paused, client.at + 1)
            yield Move("go on", frozenset({me, "log", f"line {state.paused}"}), on)

    def _moves_of(self, state: State, number: int, client: Client) -> Iterator[Move]:
        me, line = f"client {number}", f"line {number}"
        seen = frozenset({me, "log", line})
        if client.where == "outside":
            yield Move(f"enter {number}", seen, _with(state, number, client._replace(where="asked")))
        if client.where == "asked":
            server = AT[self.requests[client.at]]
            yield Move(f"serve {number}", frozenset({server, line}), self._served(state, number))
        if client.where == "told" and state.paused == number:
            yield Move(f"answer {number}", frozenset({me, line}), _with(state, number, client._replace(where="heard")))
        if client.where == "told" and state.paused != number:
            answered = self._answered(state, number)
            yield Move(f"answer {number}", seen, answered)
            if state.pause == "none" and answered.clients[number].where != "gone":
                halted = Client(client.at, "halted", holds=True)
                stopped = _with(answered, number, halted)._replace(pause="long", paused=number)
                yield Move(f"answer {number} and pause", seen | {"pauses"}, stopped)
        if state.pause == "none" and client.where in ("asked", "told"):
            yield Move(f"pause {number}", frozenset({me, "log", "pauses"}), state._replace(pause="long", paused=number))

    def _served(self, state: State, number: int) -> State:
        client = state.clients[number]
        request, yes, owner = self.requests[client.at], True, state.owner
        if request == "lock":
            yes = owner is None
            owner = number if yes else owner
        if request == "unlock":
            yes = owner == number
            owner = None if yes else owner
        return _with(state, number, client._replace(where="told", yes=yes))._replace(owner=owner)

    def _answered(self, state: State, number: int) -> State:
        client = state.clients[number]
        locked = self.requests[client.at] == "lock" and client.yes
        if locked and any(other.holds for other in state.clients):
            state = state._replace(both=True)
        if client.at + 1 == len(self.requests) or not (locked or client.holds):
            return _with(state, number, Client(client.at, "gone"))
        return self._asks(state, number, client.at + 1)

    def _asks(self, state: State, number: int, at: int) -> State:
        """Send the next request. A client that requests a release no longer believes that it holds the lock."""
        return _with(state, number, Client(at, "asked", holds=self.requests[at] != "unlock"))


def _with(state: State, number: int, client: Client) -> State:
    clients = [*state.clients]
    clients[number] = client
    return state._replace(clients=tuple(clients))


def count(model: Token) -> int:
    """Count all orders of all moves."""

    @cache
    def orders(state: State) -> int:
        return sum(orders(move.then) for move in model.moves(state)) or 1

    return orders(model.first)


def walks(model: Token) -> Iterator[tuple[list[Move], State]]:
    """Yield all orders of all moves, each with its final state."""
    walk: list[Move] = []

    def on(state: State) -> Iterator[tuple[list[Move], State]]:
        dead_end = True
        for move in model.moves(state):
            dead_end = False
            walk.append(move)
            yield from on(move.then)
            walk.pop()
        if dead_end:
            yield walk, state

    yield from on(model.first)
