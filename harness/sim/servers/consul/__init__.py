"""Simulated Consul 1.15 server: keys, sessions and blocking queries of its HTTP API."""
