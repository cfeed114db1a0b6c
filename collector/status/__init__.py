"""The `status` verb: what the agent sees at this moment, from its outbox."""
