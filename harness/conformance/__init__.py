"""Does a lock program do what ``docs/client-protocol.md`` asks of it? Whoever writes one, in whatever language, finds
out with ``harness conformance``, and is told in plain words what is wrong.

It is about the program, not about the lock: a lock that loses its key in a failover conforms, if its program says so.
"""
