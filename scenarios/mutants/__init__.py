"""Locks that are wrong, each in one way, and the checker that must notice: ``harness nightly --suite mutants``."""
