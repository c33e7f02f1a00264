"""Locks that are wrong on purpose, each one documented mistake, and what cures it: scenarios name them."""
