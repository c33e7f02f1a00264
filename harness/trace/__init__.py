"""Traces of runs: what clients and servers sent each other, decoded, with the line of the lock that sent it."""
