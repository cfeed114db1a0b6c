"""Gathers everything a host knows about one death, or one hang that is still hanging, into a bundle."""
