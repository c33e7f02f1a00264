"""A simulated ZooKeeper."""
