"""Hub and panels: show what analyzers concluded. Imports analyzers, never collector."""
