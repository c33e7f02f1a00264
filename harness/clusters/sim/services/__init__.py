"""Simulated servers, one module for each family of services."""
