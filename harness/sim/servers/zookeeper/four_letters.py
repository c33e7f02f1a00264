"""ZooKeeper's four-letter words: requests of four bytes instead of a session, answered with text and then closed.

Source: ZooKeeper Administrator's Guide, "The Four Letter Words". Only ``srvr`` is enabled by default in ZooKeeper, and
only ``srvr`` is simulated. Its counters are always 0.
"""

from __future__ import annotations

from typing import Final

from .tree import Tree

SRVR: Final = b"srvr"
VERSION: Final = "3.8.0-0, built on 2022-02-25 08:49 UTC"


def answer(data: bytes, tree: Tree, mode: str) -> bytes | None:
    """Return the answer to the first bytes of a connection; None if they are not a word.

    ``mode`` is the server's role: "standalone", "leader" or "follower".
    """
    if data != SRVR:
        return None
    return (
        f"Zookeeper version: {VERSION}\nLatency min/avg/max: 0/0.0/0\nReceived: 0\nSent: 0\nConnections: 1\n"
        f"Outstanding: 0\nZxid: {tree.zxid:#x}\nMode: {mode}\nNode count: {len(tree.nodes)}\n"
    ).encode()
