"""Clusters of real servers and clients in Docker containers."""
