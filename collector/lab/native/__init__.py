"""Native reference builds: llama-server compiled from source, stock or patched, kept by content."""
