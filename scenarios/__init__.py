"""Every documented failure of a lock as a plan that shows it, and its cure under the same fault."""
