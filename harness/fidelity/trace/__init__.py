"""Check recorded traffic of real servers against the simulated ones: every reply must be a possible one."""
