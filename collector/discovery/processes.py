"""Small questions to /proc that keep no state: who is there, who is gone, what little is known of whom."""

from __future__ import annotations

import os
from contextlib import suppress

from analyzers.contracts.evidence import Incarnation
from collector.discovery import events as kernel
from collector.discovery.look import Mark, mark_of
from collector.discovery.model import Found, Place
from collector.discovery.place import read_place
from collector.sources.procfs import PROC, GoneError, Process

NO_LOOK = "it ended before it could be looked into"


def connected() -> kernel.Connector | None:
    """A subscription to the kernel's process events, None without the rights."""
    try:
        return kernel.Connector()
    except OSError:
        return None


def listing() -> dict[int, int]:
    """PID to inode of its folder."""
    with os.scandir(PROC) as entries:
        return {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}


def has_ended(pid: int, mark: Mark) -> bool:
    """Whether that life of the process is over, its zombie perhaps still there."""
    now = mark_of(pid)
    return now is None or now.start != mark.start or now.dead


def comm(pid: int) -> str:
    """The name of its main thread, at most 15 characters, controls masked; empty when it is gone."""
    try:
        with open(PROC / str(pid) / "comm", "rb") as file:
            text = file.read(64).decode("utf-8", "replace").rstrip("\n")
    except OSError:
        return ""
    return "".join(char if char.isprintable() else "?" for char in text)


def bare(pid: int, mark: Mark, exe: str, boot: str | None) -> Found:
    """What is known of a server that nobody could look into: its number, its life, its program's name."""
    started = mark.start / os.sysconf("SC_CLK_TCK")
    who = Incarnation(pid=pid, start_time=started, boot_id=boot)
    place = Place()
    with suppress(GoneError, OSError), Process(pid) as process:
        place = read_place(process)
    return Found(who, exe, "standalone", place=place, problems=(NO_LOOK,))
