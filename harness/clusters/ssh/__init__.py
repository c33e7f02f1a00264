"""A cluster of the user's machines, reached over SSH: a helper program on each host runs and faults its programs."""
