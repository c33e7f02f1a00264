"""Servers that the harness starts on hosts, one module for each service."""
