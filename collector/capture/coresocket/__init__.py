"""Takes crashes from the kernel's coredump socket: one process, no program started per crash.

Standard library and the crash path only; copied beside it and run as
``python3 -ISB FOLDER/coresocket/__main__.py SOCKET``. The kernel connects once per crash (fs/coredump.c) and
keeps the process, with all of /proc/PID, until the connection is closed.
"""
