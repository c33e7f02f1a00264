"""Compare the simulated servers with the real ones, which run as plain processes of this machine."""
