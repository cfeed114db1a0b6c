"""The agent's store: cursors, evidence and incidents, kept until whoever is to have them has them."""
