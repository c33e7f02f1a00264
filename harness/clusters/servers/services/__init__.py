"""What the harness does on each kind of server that a user runs."""
