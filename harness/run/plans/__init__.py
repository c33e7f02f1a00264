"""Completion of plans: what the lock and the cluster decide, and the refusal of plans that cannot be run."""
