"""Fetching symbol files from a debuginfod server: the only part of symbols that uses the network."""
