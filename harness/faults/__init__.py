"""Faults: one module for each family, which injects, observes and heals it."""
