"""The helper program of a host: starts, faults and ends the run's programs there, and undoes everything when it ends.

It uses the standard library and the modules of the helper container only; a host needs nothing but Python 3.11.
"""
