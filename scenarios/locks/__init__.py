"""Locks that are wrong on purpose, for the scenarios in the folder above.

Each class repeats one documented mistake, of a library or of programs that use it. Where no catalogue lock is the cure,
the corrected class is here too. Plans name them as ``harness.scenarios.locks.module:Class``; they are not in the
catalogue.
"""
