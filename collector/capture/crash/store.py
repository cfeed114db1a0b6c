"""The captures' folder: a private folder per capture, written under another name until it is complete.

The order is write, sync, acknowledge: the folder gets its name only when every byte of it is on the disk.
All files are opened by the descriptor of their own folder: nothing is written elsewhere.
"""

import os
import stat
from errno import EEXIST, ENOSPC

from collector.capture.crash import limits

PARTIAL = ".partial-"
TRACE = "trace.json"
MANIFEST = "capture.json"
LARGE = ("core", "core.full", "exe")  # of a capture's files
_LINE = "  "


class RefusedError(Exception):
    """The store takes no capture; why stands in the text."""


class Folder:
    """One capture's folder, still partial. Its store, itself and its breadcrumb are held by descriptors."""

    def __init__(self, store: int, name: str) -> None:
        self.store = store
        self.name = name
        self.trace = -1
        self.descriptor = os.open(PARTIAL + name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=store)

    def create(self, name: str) -> int:
        """A new private file in it, open for reading and writing."""
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR
        return os.open(name, flags, 0o600, dir_fd=self.descriptor)

    def write(self, name: str, data: bytes) -> None:
        """A new file with ``data``, synced. Raises OSError, and leaves no half of a file then."""
        descriptor = self.create(name)
        try:
            put(descriptor, data)
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
        """Everything is written: take it over, sync the folder, give it its name, sync the store."""
        reclaim(self.descriptor)
        os.fsync(self.descriptor)
        os.rename(PARTIAL + self.name, self.name, src_dir_fd=self.store, dst_dir_fd=self.store)
        os.fsync(self.store)


def put(descriptor: int, data: "bytes | memoryview") -> None:
    """Write all of ``data`` where the file stands, and sync it: the one way in which a capture's, an
    installation's and a listing's files reach the disk. Raises OSError."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.write(descriptor, view[done:])
    os.fsync(descriptor)


def reclaim(folder: int) -> None:
    """Make everything in an open folder this user's own, private. Nobody may be at work in it any more.

    Raises OSError, and takes it away, where something is no plain file with this one name: a reader that
    was taken over may have left it.
    """
    owner, group = os.geteuid(), os.getegid()
    strange = ""
    for name in os.listdir(folder):
        looked = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(looked.st_mode) and looked.st_nlink == 1:
            os.chown(name, owner, group, dir_fd=folder, follow_symlinks=False)
            os.chmod(name, 0o600, dir_fd=folder)
            continue
        strange = name
        (os.rmdir if stat.S_ISDIR(looked.st_mode) else os.unlink)(name, dir_fd=folder)
    os.fchown(folder, owner, group)
    os.fchmod(folder, 0o700)
    if strange:
        raise OSError(EEXIST, f"{strange[:60]!r} in the capture's folder is no plain file")


def open_store(path: str, reserve: int, uid: "int | None" = None) -> int:
    """A descriptor of the store, made when it is missing. ``uid``: whose crash it is for.

    Raises RefusedError: not root's, no room, full, or that user has its share.
    """
    try:
        os.makedirs(path, 0o700, exist_ok=True)  # many may die at once, and make it at once
        store = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        found, free = os.fstat(store), os.fstatvfs(store)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            raise RefusedError(f"{path} can be written by others than root")
        if free.f_bavail * free.f_frsize < reserve or (free.f_files and not free.f_favail):
            raise RefusedError(f"{path}: less than {reserve} bytes are free")
        names = os.listdir(store)
        if len(names) >= limits.STORED:
            raise RefusedError(f"{path} holds {limits.STORED} captures")
        if uid is not None:
            _demand_share(store, [name for name in names if name.endswith(mark_of(uid))], uid)
    except OSError as problem:
        raise RefusedError(f"{path}: {problem.strerror}") from None
    return store


def mark_of(uid: int) -> str:
    """The end of the name of every capture of that user's processes."""
    return f"-u{uid}"


def _demand_share(store: int, names: "list[str]", uid: int) -> None:
    if len(names) >= limits.STORED_OF_USER:
        raise RefusedError(f"user {uid} has its share, {limits.STORED_OF_USER} captures")
    if share_left(store, names) <= 0:
        raise RefusedError(f"user {uid} has its share of the file system")


def share_left(store: int, names: "list[str]") -> int:
    """Bytes that a user whose captures are ``names`` may still take: large files alone are counted."""
    room = os.fstatvfs(store)
    used = 0
    for name in names:
        for file in LARGE:
            try:
                used += os.stat(f"{name}/{file}", dir_fd=store, follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
    return room.f_blocks * room.f_frsize // limits.USER_PART - used


def begin(store: int, name: str, told: dict[str, object]) -> Folder:
    """A new partial folder with its breadcrumb, not synced yet. Raises RefusedError."""
    try:
        os.mkdir(PARTIAL + name, 0o700, dir_fd=store)
        folder = Folder(store, name)
        descriptor = folder.create(TRACE)
        if os.write(descriptor, trace_text(told)) < limits.TRACE_BYTES:
            raise OSError(ENOSPC, "no room for the breadcrumb")
        folder.trace = descriptor
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
    os.fsync(folder.trace)
    os.fsync(folder.descriptor)
    os.fsync(folder.store)


def refuse(folder: Folder, told: dict[str, object]) -> None:
    """Write the outcome over the breadcrumb, in place: a full disk does not hinder it."""
    os.pwrite(folder.trace, trace_text(told), 0)
    os.fsync(folder.trace)


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
