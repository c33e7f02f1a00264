"""Lock programs with one defect each, named in its docstring: ``python -m tests.conformance.mutants NAME``."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from tests.conformance.program import Lost, Program, Refused, Server


class TimedOutIsFail(Program):
    """Reports fail for an acquire that no server answered."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        try:
            return super().do_acquire(key, timeout)
        except Lost as lost:
            raise Refused(f"timed out: {lost}") from lost


class LostIsBusy(Program):
    """Reports busy for an acquire whose answer was lost."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        try:
            return super().do_acquire(key, timeout)
        except Lost as lost:
            raise Refused("busy") from lost


class OutOfOrder(Program):
    """Runs all requests concurrently, and answers each when it is done."""

    def do_open(self, addresses: list[Any], ttl: float, **about: Any) -> None:
        super().do_open(addresses, ttl, **about)
        self.address = addresses[0][0], addresses[0][1]

    def serve(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            if request["op"] == "acquire" and request["timeout"]:
                threading.Thread(target=self._later, args=(request,), daemon=True).start()
                time.sleep(0.005)
                continue
            self.say(request, self.answer(request))

    def _later(self, request: Any) -> None:
        other = Program()
        other.ttl, other.me, other.held = self.ttl, f"{self.me}-{request['id']}", self.held
        other.server = Server(self.address, self.PATIENCE)
        self.say(request, other.answer(request))


class DropsReleases(Program):
    """Answers ok to a release, and sends nothing to the server."""

    def do_release(self, key: str) -> None:
        if not self.held.pop(key, ""):
            raise Refused("not the holder")


class AnswersTwice(Program):
    """Answers each request twice, the second time a moment later."""

    def say(self, request: Any, answer: Any) -> None:
        super().say(request, answer)
        super().say(request, answer)


class WrongId(Program):
    """Numbers its answers itself, from 0."""

    def say(self, request: Any, answer: Any) -> None:
        super().say({"id": request["id"] - 1}, answer)


class NoId(Program):
    """Leaves out the id."""

    def say(self, request: Any, answer: Any) -> None:
        print(json.dumps(answer), flush=True)


class Wraps(Program):
    """Answers with an array."""

    def say(self, request: Any, answer: Any) -> None:
        print(json.dumps([{"id": request["id"], **answer}]), flush=True)


class Greets(Program):
    """Does not answer in JSON."""

    def say(self, request: Any, answer: Any) -> None:
        print("hello", flush=True)


class HoldsBack(Program):
    """Answers an acquire that does not wait only when the next request has come."""

    def serve(self) -> None:
        self.back: Any = None
        super().serve()

    def say(self, request: Any, answer: Any) -> None:
        back, self.back = self.back, None
        if back:
            super().say(*back)
        if request.get("timeout") == 0:
            self.back = request, answer
        else:
            super().say(request, answer)


class TwoOutcomes(Program):
    """Answers with both ok and fail."""

    def say(self, request: Any, answer: Any) -> None:
        super().say(request, {"ok": None, "fail": None, **answer})


class Logs(Program):
    """Writes a log to its stdout."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        print(f"INFO acquiring {key}", flush=True)
        return super().do_acquire(key, timeout)


class FreesAnybodys(Program):
    """Releases the lock of any client."""

    def do_release(self, key: str) -> None:
        self.server.ask("drop", key, None)


class SaysFreed(Program):
    """Answers ok to a release of a lock that it does not hold."""

    def do_release(self, key: str) -> None:
        token = self.held.pop(key, "")
        self.server.ask("drop", key, token)


class FenceStands(Program):
    """Gives the same fence with every grant."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        return {**super().do_acquire(key, timeout), "fence": 7}


class ValidTooLong(Program):
    """Believes that a lease lasts longer than it does."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        return {**super().do_acquire(key, timeout), "valid_for": self.ttl * 2}


class Hangs(Program):
    """Waits for a server's answer for ever."""

    PATIENCE = None


class DiesOfUnknown(Program):
    """Exits on an unknown op."""

    def call(self, op: str, fields: Any) -> Any:
        if not hasattr(self, f"do_{op}"):
            sys.exit(f"what is {op}?")
        return super().call(op, fields)


class Lingers(Program):
    """Keeps running after the end of its input."""

    def serve(self) -> None:
        super().serve()
        time.sleep(3600)


class EndsBadly(Program):
    """Ends with status 1 after close."""

    def serve(self) -> None:
        super().serve()
        os._exit(1)


class Claims(Program):
    """Answers ok to an acquire without a request to a server."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        return {"fence": time.monotonic_ns(), "valid_for": None}

    def do_release(self, key: str) -> None:
        pass


class GivesUp(Program):
    """Does not wait for a busy lock."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        return super().do_acquire(key, 0)


class WaitsAnyway(Program):
    """Waits for a busy lock even with a timeout of 0."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        return super().do_acquire(key, max(timeout, 1.2))


class LooksRarely(Program):
    """Tries a busy lock only twice: at once, and when its time is over."""

    POLL = 3600.0


class Slow(Program):
    """Delays its answers."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        time.sleep(1.2)
        return super().do_acquire(key, timeout)


class TakesAWhile(Program):
    """Correct, but takes a moment for each acquire."""

    def do_acquire(self, key: str, timeout: float) -> Any:
        time.sleep(0.05)
        return super().do_acquire(key, timeout)


class NeverExpires(Program):
    """Acquires leases that never end."""

    def do_open(self, addresses: list[Any], ttl: float, **about: Any) -> None:
        super().do_open(addresses, 3600.0, **about)


class ShortLease(Program):
    """Takes the ttl as milliseconds."""

    def do_open(self, addresses: list[Any], ttl: float, **about: Any) -> None:
        super().do_open(addresses, ttl / 1000, **about)


class NearlySameKeys(Program):
    """Confuses keys that differ only in unusual characters."""

    def call(self, op: str, fields: Any) -> Any:
        if "key" in fields:
            fields["key"] = fields["key"].encode("ascii", "replace").decode().lower()
        return super().call(op, fields)


class SureOfRelease(Program):
    """Reports ok for a release that no server answered."""

    def do_release(self, key: str) -> None:
        try:
            super().do_release(key)
        except Lost:
            return


class StaysBroken(Program):
    """Never reconnects."""

    def do_open(self, addresses: list[Any], ttl: float, **about: Any) -> None:
        super().do_open(addresses, ttl, **about)
        self.server._address = ("127.0.0.1", 1)


class AlwaysValid(Program):
    """Reports every lock as valid for ever."""

    def do_still_valid(self, key: str) -> bool:
        return True


class CannotExtend(Program):
    """Correct, but does not know this op."""

    do_extend = None  # type: ignore[assignment]


class AlwaysExtends(Program):
    """Reports an extension of a lock that it does not hold."""

    def do_extend(self, key: str) -> bool:
        return True


class Refuses(Program):
    """Refuses to open."""

    def do_open(self, addresses: list[Any], ttl: float, **about: Any) -> None:
        raise RuntimeError("no licence")


if __name__ == "__main__":
    globals()[sys.argv[1]]().serve()
