"""Looks at a live host and yields Evidence. Wakes nothing, changes nothing."""
