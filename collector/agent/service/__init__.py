"""The agent as a service: what it tells its supervisor, its own log, signals."""
