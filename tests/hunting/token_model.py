"""SET NX PX on paper: two clients, one Redis, one resource, at most one pause that outlasts the ttl, or one jump of the
Redis' clock.

Written for itself, to count what the exhaustive search counts; it knows nothing of the simulator. Each client sends a
request, which a server answers, and goes on to its next request when the answer has come to it; who cannot lock goes
home. Moves touch a client, a server, the line that a client's requests and answers go through, and the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

WHOLE = ("lock", "read", "write", "unlock")
SHORT = ("lock", "unlock")
AT = {"lock": "redis", "unlock": "redis", "read": "store", "write": "store"}


class Client(NamedTuple):
    """``where``: outside, asked (the request is under way), told (the answer is), heard (the answer has come while it
    was paused), halted (paused between an answer and the next request), or gone."""

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
    """``requests`` are what a client asks for in turn; of ``pauses`` and ``jumps`` one may be 1."""

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
        """Who asks to unlock believes no longer that it has the lock."""
        return _with(state, number, Client(at, "asked", holds=self.requests[at] != "unlock"))


def _with(state: State, number: int, client: Client) -> State:
    clients = [*state.clients]
    clients[number] = client
    return state._replace(clients=tuple(clients))


def count(model: Token) -> int:
    """All orders of all moves, by adding up."""

    @cache
    def orders(state: State) -> int:
        return sum(orders(move.then) for move in model.moves(state)) or 1

    return orders(model.first)


def walks(model: Token) -> Iterator[tuple[list[Move], State]]:
    """All orders of all moves, one by one, each with the state that it ends in."""
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
