"""Access to each kind of server that a user runs."""
