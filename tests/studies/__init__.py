"""Studies of several releases of a library."""
