"""The protected resource as a program: ``python -m harness.worker.resource_server PORT JSON`` in a container.

JSON is ``{"fencing": "off", "stock": {}}``. Each connection has a thread; accesses are applied one at a time. With
``PARENT JSON --local`` it listens on a free port of the loopback interface, and ends with the process PARENT.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from typing import Any

from .lifetime import end_with_parent
from .resource import Resource


class _Lines(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        for line in self.rfile:
            with self.server.one_at_a_time:
                answer = self.server.resource.answer(line)
            self.wfile.write(answer + b"\n")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], resource: Resource) -> None:
        self.resource = resource
        self.one_at_a_time = threading.Lock()
        super().__init__(address, _Lines)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: clients are expected to die in the middle of a request."""


def main() -> None:
    """Serve until killed; prints ``ready`` and the port once it listens."""
    about = json.loads(sys.argv[2])
    address = "0.0.0.0", int(sys.argv[1])
    if sys.argv[3:] == ["--local"]:
        end_with_parent(int(sys.argv[1]))
        address = "127.0.0.1", 0
    with _Server(address, Resource(about["fencing"], about["stock"])) as server:
        print("ready", server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
