"""Protocols of the servers: one parser each, for what is recorded on containers and logged in the simulator."""
