"""Hunts: searches for schedules in which a lock fails. See :mod:`harness.search.hunt`."""
