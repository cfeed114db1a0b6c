"""`llama-blackbox incidents`: what the agent has seen on this host, from its outbox."""
