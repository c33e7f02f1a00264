"""Conformance tests (``harness conformance``) of lock programs, in any language, against ``docs/client-protocol.md``.

The tests are about the program, not the lock: a lock that loses its key in a failover conforms if its program reports
that.
"""
