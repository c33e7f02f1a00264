"""Simulated servers that speak the real wire protocols, one package for each product."""
