"""Real servers in containers, one module for each family of services."""
