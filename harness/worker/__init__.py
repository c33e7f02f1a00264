"""Code that runs in a client's process: the client program, its workloads, and access to the protected resource."""
