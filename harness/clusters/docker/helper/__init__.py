"""Program of the privileged helper container, which does network, clock, disk and process faults in other containers.

It uses the standard library only; no other packages are installed in the container.
"""
