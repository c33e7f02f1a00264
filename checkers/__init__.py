"""Checkers: pure functions from a history to a verdict, one a file, found by :mod:`harness.checkers.catalogue`."""
