"""A simulated Redis."""
