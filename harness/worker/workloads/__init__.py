"""Workloads: what clients do in a run, one file for each."""
