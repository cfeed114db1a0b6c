"""The crash path: what runs as root while a process is dying. Standard library only, nothing of its siblings.

It is copied as a folder to a place that only root can write, and run there by the kernel:
``python3 -ISB FOLDER/__main__.py NUMBERS HOST THREAD PROGRAM``. Each module that is loaded costs the dying
process's owner a millisecond or more, so there are plain classes here instead of dataclasses, no json, no
re and no typing before the process is released.
"""
