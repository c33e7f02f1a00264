"""A simulated memcached."""
