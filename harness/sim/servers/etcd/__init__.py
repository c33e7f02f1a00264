"""A simulated etcd."""
