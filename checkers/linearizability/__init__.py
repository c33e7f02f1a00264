"""Is there one order of all calls, each between its invocation and its return, that the model of a lock allows?

``problem.py`` is what all algorithms are given, ``definite.py`` and ``deadlines.py`` are quick ones for locks with the
argument why they are right beside them, ``search.py`` answers for any model, ``core.py`` finds the smallest part of
a history that is still wrong, and ``check.py`` puts them together.
"""
