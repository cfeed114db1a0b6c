"""Touches live hosts: sources, actions and the lab. Imports analyzers, never dashboards."""
