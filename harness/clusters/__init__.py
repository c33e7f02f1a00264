"""Clusters that locks run on: the protocols that a backend implements, and the backends sim and docker."""
