"""Clusters that locks run on: the protocols of a cluster, and its backends sim, docker, servers and ssh."""
