"""What every server is doing right now, from log lines, probes, sockets and the kernel's figures."""
