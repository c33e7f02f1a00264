"""A cluster of servers that the user runs: clients are processes of this machine, and a proxy is between them."""
