"""What runs inside the privileged helper container: the standard library only, for nothing else is installed there."""
