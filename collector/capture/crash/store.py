"""The captures' folder: a private folder per capture, written under another name until it is complete.

The order is write, sync, acknowledge: the folder gets its name only when every byte of it is on the disk.
All files are opened by the descriptor of their own folder: nothing is written elsewhere.
"""

import os
from errno import ENOSPC

from collector.capture.crash import limits

PARTIAL = ".partial-"
TRACE = "trace.json"
MANIFEST = "capture.json"
_LINE = "  "


class RefusedError(Exception):
    """The store takes no capture; why stands in the text."""


class Folder:
    """One capture's folder, still partial. Its store and itself are held by descriptors."""

    def __init__(self, store: int, name: str) -> None:
        self.store = store
        self.name = name
        self.descriptor = os.open(PARTIAL + name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=store)

    def create(self, name: str) -> int:
        """A new private file in it, open for reading and writing."""
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR
        return os.open(name, flags, 0o600, dir_fd=self.descriptor)

    def write(self, name: str, data: bytes) -> None:
        """A new file with ``data``, synced. Raises OSError, and leaves no half of a file then."""
        descriptor = self.create(name)
        try:
            done = 0
            while done < len(data):
                done += os.write(descriptor, data[done:])
            os.fsync(descriptor)
        except OSError:
            self.remove(name)
            raise
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """Take a file of it away, if it is there."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except OSError:
            return

    def finish(self) -> None:
        """Everything is written: sync the folder, give it its name, sync the store."""
        os.fsync(self.descriptor)
        os.rename(PARTIAL + self.name, self.name, src_dir_fd=self.store, dst_dir_fd=self.store)
        os.fsync(self.store)


def open_store(path: str, reserve: int) -> int:
    """A descriptor of the store, made when it is missing. Raises RefusedError: not root's, no room, full."""
    try:
        if not os.path.isdir(path):
            os.makedirs(path, 0o700)
        store = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        found, free = os.fstat(store), os.fstatvfs(store)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            raise RefusedError(f"{path} can be written by others than root")
        if free.f_bavail * free.f_frsize < reserve or (free.f_files and not free.f_favail):
            raise RefusedError(f"{path}: less than {reserve} bytes are free")
        if len(os.listdir(store)) >= limits.STORED:
            raise RefusedError(f"{path} holds {limits.STORED} captures")
    except OSError as problem:
        raise RefusedError(f"{path}: {problem.strerror}") from None
    return store


def begin(store: int, name: str, told: dict[str, object]) -> Folder:
    """A new partial folder with its breadcrumb, not synced yet. Raises RefusedError."""
    try:
        os.mkdir(PARTIAL + name, 0o700, dir_fd=store)
        folder = Folder(store, name)
        descriptor = folder.create(TRACE)
        if os.write(descriptor, trace_text(told)) < limits.TRACE_BYTES:
            raise OSError(ENOSPC, "no room for the breadcrumb")
        os.close(descriptor)
    except OSError as problem:
        _forget(store, PARTIAL + name)
        raise RefusedError(f"a capture cannot be begun: {problem.strerror}") from None
    return folder


def _forget(store: int, name: str) -> None:
    """A folder that holds nothing but half a breadcrumb: the crash is passed on, which is said elsewhere."""
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=store)
        for file in os.listdir(folder):
            os.unlink(file, dir_fd=folder)
        os.close(folder)
        os.rmdir(name, dir_fd=store)
    except OSError:
        return


def sync_trace(folder: Folder) -> None:
    """The breadcrumb, its folder and the store onto the disk."""
    descriptor = os.open(TRACE, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder.descriptor)
    os.fsync(descriptor)
    os.close(descriptor)
    os.fsync(folder.descriptor)
    os.fsync(folder.store)


def refuse(folder: Folder, told: dict[str, object]) -> None:
    """Write the outcome over the breadcrumb, in place: a full disk does not hinder it."""
    descriptor = os.open(TRACE, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=folder.descriptor)
    try:
        os.pwrite(descriptor, trace_text(told), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def trace_text(told: dict[str, object]) -> bytes:
    """JSON of plain values, filled up with blanks to a fixed size; the module json takes 5 ms to load."""
    rows = [f"{_LINE}{_quoted(name)}: {_value(value)}" for name, value in told.items()]
    text = "{\n" + ",\n".join(rows) + "\n}"
    return text.encode("ascii")[: limits.TRACE_BYTES - 1].ljust(limits.TRACE_BYTES - 1) + b"\n"


def _value(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else _quoted(str(value)[:500])


def _quoted(text: str) -> str:
    out = ['"']
    for char in text:
        if " " <= char <= "~" and char not in '"\\':
            out.append(char)
        else:
            units = char.encode("utf-16-le", "surrogatepass")
            out += [f"\\u{units[at] | units[at + 1] << 8:04x}" for at in range(0, len(units), 2)]
    return "".join(out) + '"'
