"""The deterministic simulator: virtual time, hosts, a network, a patched standard library, and simulated servers."""
