"""Linearizability: is there an order of all calls that a model allows, with each call between invocation and return?

``check.py`` is the entry point. ``definite.py``, ``deadlines.py`` and ``fifo.py`` are fast algorithms for locks, each
with its proof. ``search.py`` is an exact search for any model, and ``findings.py`` uses it for what the fast algorithms
leave undecided or find wrong. ``core.py`` finds the smallest part of a history that is still wrong, and ``explain.py``
words it. ``problem.py`` has the input and output types of all algorithms.
"""
