"""Clusters of simulated servers and clients in one process, with virtual time."""
