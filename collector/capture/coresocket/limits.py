"""Every bound of the socket's server, with its reason. Seconds, counts."""

BACKLOG = 4096  # connections the kernel may queue; beyond it a crash has no core at all (somaxconn cuts it)
WORKERS = 8  # crashes worked on at once: each holds up to 1 GiB of address space and reads /proc
WAITING = 1024  # accepted and held: their processes stay, whole, until a worker is free
WORKER_SECONDS = 360.0  # more than a full core's 300: a worker that hangs must not hold its place for ever
TURN_SECONDS = 1.0  # between two looks at workers that are overdue
HANDSHAKE_SECONDS = 5.0  # the kernel's own side of it takes microseconds
