"""The handler's settings and the pattern that was set before it, each in a file of its own.

Both stand beside this package's folder, where only root can write: a broken settings file must not
take the way to the previous handler with it.
"""

import os
import stat

from collector.capture.crash import limits
from collector.capture.crash.proc import read_some

SETTINGS = "capture.conf"
PREVIOUS = "previous"
MINIMAL, FULL = "minimal", "full"
STORE = "/var/lib/llama-blackbox/captures"
KERNEL_DEFAULT = "core"  # what kernel.core_pattern is when nobody sets it
_MAX_FILE = 64 << 10


class Settings:
    """``mode``; ``store``: the captures' folder; ``names``: more file names of servers; ``full_bytes``: the
    largest full core; ``reserve``: bytes of the file system left free; ``faults``: lines not understood."""

    def __init__(self) -> None:
        self.mode = MINIMAL
        self.store = STORE
        self.names: tuple[str, ...] = ()
        self.full_bytes = limits.FULL_BYTES
        self.reserve = limits.RESERVE
        self.faults: list[str] = []


def read_settings(folder: str) -> Settings:
    """The settings in ``folder``; a missing, unsafe or damaged file gives the defaults and says so in
    ``faults``. Never raises."""
    settings = Settings()
    try:
        text = _own_text(folder, SETTINGS)
    except (OSError, ValueError) as problem:
        settings.faults.append(f"{SETTINGS}: {problem}")
        return settings
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            _apply(settings, line)
    return settings


def _apply(settings: Settings, line: str) -> None:
    name, _, value = (part.strip() for part in line.partition("="))
    if name == "mode" and value in (MINIMAL, FULL):
        settings.mode = value
    elif name == "store" and value.startswith("/"):
        settings.store = value
    elif name == "names":
        settings.names = tuple(word.strip() for word in value.split(",") if word.strip())
    elif name in ("full_bytes", "reserve") and value.isdecimal() and len(value) < 18:
        setattr(settings, name, int(value))
    else:
        settings.faults.append(f"{SETTINGS}: not understood: {line[:80]}")


def written(mode: str, store: str, names: tuple[str, ...] = ()) -> str:
    """The text of a settings file, for whoever installs the handler."""
    lines = [f"mode = {mode}", f"store = {store}"]
    return "\n".join([*lines, *([f"names = {', '.join(names)}"] if names else [])]) + "\n"


def read_previous(folder: str) -> str:
    """The previous core_pattern. Raises OSError or ValueError when its file is missing or not root's."""
    return _own_text(folder, PREVIOUS).rstrip("\n")


def _own_text(folder: str, name: str) -> str:
    """A file that nobody but root (or this user) can have written, in such a folder."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _demand_own(os.fstat(place), folder)
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)
    try:
        found = os.fstat(descriptor)
        _demand_own(found, name)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("not a regular file")
    except ValueError:
        os.close(descriptor)
        raise
    return read_some(descriptor, _MAX_FILE).decode("utf-8", "surrogateescape")


def _demand_own(found: os.stat_result, name: str) -> None:
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise ValueError(f"{name} can be written by others than root")
