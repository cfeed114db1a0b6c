"""Is this host exposed, and would a crash leave evidence? Reads only; changes, asks and wakes nothing."""
