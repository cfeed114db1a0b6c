"""Every llama-server of this host as it comes and goes, what it is, and with which settings it runs."""
