"""Unmodified locks of third-party libraries.

Each adapter is a few lines around the library's own class. It states the tested version and what the library's
documentation promises.
"""
