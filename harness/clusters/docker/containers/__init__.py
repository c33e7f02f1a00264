"""Docker containers: the engine, channels to programs in containers, and the proxy and helper containers."""
