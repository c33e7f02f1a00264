"""Docker images of servers, clients and tools, and how each is built."""
