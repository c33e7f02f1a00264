"""Checkers: pure functions from a history to a verdict, one a file, found by :mod:`checkers.catalogue`."""
