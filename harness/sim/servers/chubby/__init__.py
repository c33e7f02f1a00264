"""Simulated Chubby cell: replicas that elect a master, sessions with leases, files that serve as locks."""
