"""Execution of one run, from the plan to the verdict, and the worker pool that executes many runs.

This package imports none of its modules, so that a command that needs one of them does not load the others.
"""
