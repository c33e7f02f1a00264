"""A simulated PostgreSQL 15 server."""
