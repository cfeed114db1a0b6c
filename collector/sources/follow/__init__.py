"""The agent's continuous sources: each a reader of its own with its cursor (contract: sources/stream.py)."""
