"""Cores that others took, into the store of captures: each once, the source left as it is."""
