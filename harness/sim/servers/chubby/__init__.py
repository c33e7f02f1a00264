"""A simulated Chubby cell."""
