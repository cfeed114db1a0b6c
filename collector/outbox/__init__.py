"""What the agent must not lose: stored and synced on this host first, then handed to sinks."""
