"""A simulated MariaDB."""
