"""The agent's one file of settings: validated as a whole, read again on reload, keys only by reference."""
