"""The few things that act on a live host, each only when it is explicitly told to."""
