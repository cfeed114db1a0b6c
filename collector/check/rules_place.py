"""Where the core would go, and whether it can: a plain file, a handler's pipe, a socket."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from collector.capture.crash.limits import STORED
from collector.check.model import CORE, Finding, Level, size_text
from collector.check.pattern import ABRT, APPORT, FILE, NONE, OURS, PIPE, SYSTEMD, Pattern
from collector.check.rules_systemd import systemd_rules
from collector.check.scene import Scene, capture_settings
from collector.gather.tools import read_text

BOOT_FILE = "/etc/sysctl.d/60-cores.conf"
MEMORY_SYSTEMS = ("tmpfs", "ramfs")
CONTAINER_SYSTEMS = ("overlay", "aufs", "fuse.fuse-overlayfs")


def place_rules(scene: Scene) -> Iterator[Finding]:
    """By the shape of core_pattern."""
    pattern = scene.pattern
    if pattern is None:
        what, why = "kernel.core_pattern could not be read", "where a core would go is not known"
        yield Finding("pattern-unread", CORE, Level.UNREAD, what, why, "sysctl kernel.core_pattern")
    elif pattern.kind == NONE:
        why = "an empty pattern with core_uses_pid = 0, or a handler without a name, means no core"
        yield _pattern_finding(scene, Level.LOST, "kernel.core_pattern names nobody", why, id="pattern-empty")
    elif pattern.kind == FILE:
        yield from _file(scene, pattern)
    elif pattern.kind == PIPE:
        yield from _pipe(scene, pattern)
    else:
        yield from _socket(scene, pattern)


def _pattern_finding(scene: Scene, level: Level, what: str, why: str, *, id: str) -> Finding:
    text = scene.pattern.text if scene.pattern else ""
    at = scene.host.sysctl_file("kernel.core_pattern")
    change = f"kernel.core_pattern in {at or BOOT_FILE}, or: sudo llama-blackbox capture install"
    return Finding(id, CORE, level, what, why, change, f"kernel.core_pattern = {text!r}")


def _file(scene: Scene, pattern: Pattern) -> Iterator[Finding]:
    if not pattern.named_by_pid:
        what, why = "each core overwrites the one before", "its name holds no %p, and core_uses_pid is 0"
        change = f"kernel.core_uses_pid = 1 in {BOOT_FILE}"
        yield Finding(
            "one-name", CORE, Level.RISK, what, why, change, f"kernel.core_pattern = {pattern.text!r}"
        )
    folder, whole = folder_of(pattern)
    shown = (
        folder
        if folder.startswith("/")
        else f"{scene.subject.cwd or 'its working folder'}/{folder}".rstrip("/.")
    )
    if not whole:
        what = "the folder of the core depends on % parts"
        yield Finding(
            "folder-varies",
            CORE,
            Level.NOTE,
            what,
            f"only {shown} was looked at; the kernel makes no folders",
        )
    try:
        found = os.stat(scene.subject.inside(folder))
        room = os.statvfs(scene.subject.inside(folder))
    except PermissionError:
        what, why = f"{shown} could not be looked at", "whether a core fits there is not known"
        yield Finding(
            "folder-unread",
            CORE,
            Level.UNREAD,
            what,
            why,
            f"sudo llama-blackbox check --cores --pid {scene.subject.server.pid}",
        )
        return
    except OSError:
        why = "the kernel makes no folders: the core is not written"
        yield _pattern_finding(
            scene, Level.LOST, f"{shown} is not there for the process", why, id="folder-missing"
        )
        return
    yield from _writable(scene, pattern, shown, found, room)
    yield from _system_of(scene, shown)
    yield from _room(scene, shown, room)


def folder_of(pattern: Pattern) -> tuple[str, bool]:
    """(the part of the core's folder that has no % in it, whether that is all of it)."""
    parts = PurePosixPath(pattern.path).parent.parts
    fixed: list[str] = []
    for part in parts:
        if "%" in part:
            break
        fixed.append(part)
    return str(PurePosixPath(*fixed)) if fixed else ".", len(fixed) == len(parts)


def _writable(
    scene: Scene, pattern: Pattern, shown: str, found: os.stat_result, room: os.statvfs_result
) -> Iterator[Finding]:
    who = scene.subject.who
    change = f"give the server's user a folder: kernel.core_pattern = /var/cores/%e.%p.%t in {BOOT_FILE}"
    if scene.unit is not None:
        change += f", and {scene.unit.override('ReadWritePaths=/var/cores')}"
    if room.f_flag & os.ST_RDONLY:
        why = (
            "no core is written to a file system that the process sees read-only (ProtectSystem= makes it so)"
        )
        yield Finding(
            "folder-read-only", CORE, Level.LOST, f"{shown} is read-only for the process", why, change
        )
    elif who is not None and not who.may_write(found):
        why = f"the kernel writes the core with the process's own rights (uid {who.uid})"
        mode = f"{stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}:{found.st_gid}"
        yield Finding(
            "folder-not-writable",
            CORE,
            Level.LOST,
            f"the process may not write to {shown}",
            why,
            change,
            mode,
        )
    elif "%" not in pattern.path and pattern.path and not scene.host.number("kernel/core_uses_pid"):
        yield from _in_the_way(scene, pattern, shown)


def _in_the_way(scene: Scene, pattern: Pattern, shown: str) -> Iterator[Finding]:
    try:
        there = os.lstat(scene.subject.inside(pattern.path))
    except OSError:
        return
    own = scene.subject.who is None or there.st_uid == scene.subject.who.uid
    if not stat.S_ISREG(there.st_mode) or there.st_nlink != 1 or not own:
        name = PurePosixPath(pattern.path).name
        why = "the kernel writes over a regular file of the process's own user only"
        change = f"move {shown}/{name} away"
        yield Finding("in-the-way", CORE, Level.LOST, f"something else is called {shown}/{name}", why, change)


def _system_of(scene: Scene, shown: str) -> Iterator[Finding]:
    system = system_at(scene.subject.mounts, shown)
    if system in MEMORY_SYSTEMS:
        why = "the core takes memory of the host, and a reboot loses it"
        yield Finding(
            "core-in-memory",
            CORE,
            Level.RISK,
            f"{shown} is a {system}",
            why,
            "kernel.core_pattern = a path on a disk",
        )
    elif system in CONTAINER_SYSTEMS and (scene.container is not None or scene.subject.own_mounts):
        why = "a path is the crashing process's own: the core goes with its container"
        change = f"mount a volume at {shown}, or use a handler (|…), which runs on the host"
        yield Finding(
            "core-in-container",
            CORE,
            Level.RISK,
            f"{shown} is inside of its container ({system})",
            why,
            change,
        )


def system_at(mountinfo: str, path: str) -> str | None:
    """The type of the file system at an absolute path, by ``/proc/PID/mountinfo``."""
    best, kind = "", None
    for line in mountinfo.splitlines():
        head, dash, tail = line.partition(" - ")
        fields = head.split()
        if not dash or len(fields) < 5:
            continue
        at = fields[4].replace("\\040", " ").rstrip("/")
        if (path == at or path.startswith(f"{at}/")) and len(at) >= len(best):
            best, kind = at, tail.split()[0] if tail.split() else None
    return kind


def _room(scene: Scene, shown: str, room: os.statvfs_result) -> Iterator[Finding]:
    expected, free = scene.expected, room.f_bavail * room.f_frsize
    if expected is not None and free < expected.written:
        what = f"{shown} has {size_text(free)} free for a core of {size_text(expected.written)}"
        why = "the core would be cut where the disk is full"
        yield Finding(
            "disk",
            CORE,
            Level.RISK,
            what,
            why,
            f"free space at {shown}, or let core_pattern name another disk",
            size_text(free),
        )


def _pipe(scene: Scene, pattern: Pattern) -> Iterator[Finding]:
    yield from _program(scene, pattern)
    yield from _pipe_limit(scene)
    if pattern.handler == SYSTEMD:
        yield from systemd_rules(scene)
    elif pattern.handler == APPORT:
        why = "it keeps reports of packaged programs; of others only a core file, if the limit allows one"
        yield _pattern_finding(
            scene, Level.RISK, "apport ignores programs that no package owns", why, id="apport"
        )
    elif pattern.handler == ABRT:
        why = "without OpenGPGCheck=no and ProcessUnpackaged=yes it drops crashes of unpackaged programs"
        change = "ProcessUnpackaged = yes in /etc/abrt/abrt-action-save-package-data.conf"
        yield Finding("abrt", CORE, Level.RISK, "abrt may drop unpackaged programs", why, change)
    elif pattern.handler.startswith("nobody"):
        yield _pattern_finding(
            scene, Level.LOST, "cores are thrown away", f"the handler is {pattern.path}", id="thrown-away"
        )
    elif pattern.handler == OURS:
        yield from _ours(scene, pattern)
    else:
        yield Finding(
            "handler-unknown",
            CORE,
            Level.UNREAD,
            f"what {pattern.path} keeps is not known",
            "it is none of the handlers this check knows",
            f"look at {pattern.path}",
            f"kernel.core_pattern = {pattern.text!r}",
        )


def _ours(scene: Scene, pattern: Pattern) -> Iterator[Finding]:
    """Its code, which the interpreter is told to run, and the room in its store."""
    code = next((word for word in pattern.text.split() if word.endswith(".py")), None)
    install = "sudo llama-blackbox capture install"
    if code is not None and not scene.host.exists(code):
        why = "the interpreter starts and finds nothing to run: no capture, and nobody gets the core"
        yield Finding("capture-code", CORE, Level.LOST, f"{code} is not there", why, install)
        return
    yield from _store(scene)


def _store(scene: Scene) -> Iterator[Finding]:
    """What the handler refuses a capture for (crash.store.open_store)."""
    settings = capture_settings(scene.host)
    store = scene.host.root / settings.store.lstrip("/")
    try:
        there = store.is_dir()
        place = next(each for each in (store, *store.parents) if each.is_dir())
        room, held = os.statvfs(place), len(os.listdir(store)) if there else 0
    except OSError:
        what, why = f"{settings.store} could not be looked at", "whether a capture fits there is not known"
        yield Finding("capture-store", CORE, Level.UNREAD, what, why, "sudo llama-blackbox capture status")
        return
    if not there:
        what = f"{settings.store}: nothing captured yet"
        yield Finding("capture-store", CORE, Level.NOTE, what, "the first capture makes the folder")
    free = room.f_bavail * room.f_frsize
    if free < settings.reserve:
        what = f"{settings.store} has {size_text(free)} free"
        why = f"the handler leaves {size_text(settings.reserve)} of that disk alone and refuses a capture"
        yield Finding("disk", CORE, Level.LOST, what, why, f"free space at {settings.store}", size_text(free))
    if held >= STORED:
        what = f"{settings.store} holds {held} captures"
        why = f"the handler takes no more from {STORED} on, and passes the crash on"
        change = "sudo llama-blackbox capture adopt"
        yield Finding("capture-full", CORE, Level.LOST, what, why, change)


def _program(scene: Scene, pattern: Pattern) -> Iterator[Finding]:
    if not scene.first_namespaces:
        what, why = (
            f"{pattern.path} runs on the host, outside of this container",
            "it cannot be looked at from here",
        )
        yield Finding(
            "handler-outside", CORE, Level.UNREAD, what, why, "run llama-blackbox check --cores on the host"
        )
        return
    if not pattern.path.startswith("/"):
        why = "the kernel starts a handler by its absolute path"
        yield _pattern_finding(
            scene, Level.LOST, f"the handler {pattern.path} is no absolute path", why, id="handler-relative"
        )
        return
    missing = broken_program(scene.host.root, pattern.path)
    if missing is not None:
        yield _pattern_finding(
            scene,
            Level.LOST,
            f"the handler {missing}",
            "the kernel cannot start it, and no core is kept",
            id="handler-missing",
        )


def broken_program(root: Path, path: str) -> str | None:
    """Why the kernel could not start the program at ``path``; None when it could."""
    try:
        found = os.stat(root / path.lstrip("/"))
    except PermissionError:
        return None
    except OSError:
        return f"{path} is not there"
    if not stat.S_ISREG(found.st_mode) or not found.st_mode & 0o111:
        return f"{path} is not executable"
    head = (read_text(root / path.lstrip("/"), 256) or b"").split(b"\n")[0]
    words = head[2:].split() if head.startswith(b"#!") else []
    if words:
        interpreter = words[0].decode("utf-8", "replace")
        if not (root / interpreter.lstrip("/")).exists():
            return f"{path} needs {interpreter}, which is not there"
    return None


def _pipe_limit(scene: Scene) -> Iterator[Finding]:
    limit = scene.host.number("kernel/core_pipe_limit")
    present = f"kernel.core_pipe_limit = {limit}"
    change = f"kernel.core_pipe_limit = 16 in {BOOT_FILE}"
    if limit == 0:
        what = "the kernel does not wait for the handler (core_pipe_limit = 0)"
        why = "/proc/PID vanishes once the core is read: open files, cgroup and sockets may be missing"
        yield Finding("pipe-limit", CORE, Level.NOTE, what, why, change, present)
    elif limit is not None and limit < scene.servers:
        what = f"at most {limit} of {scene.servers} servers can be dumped at once"
        why = "of crashes at the same moment the kernel drops those above the limit"
        change = f"kernel.core_pipe_limit = {scene.servers + 8} in {BOOT_FILE}"
        yield Finding("pipe-limit", CORE, Level.RISK, what, why, change, present)


def _socket(scene: Scene, pattern: Pattern) -> Iterator[Finding]:
    if not pattern.path.startswith("/"):
        yield _pattern_finding(
            scene, Level.LOST, "the socket is no absolute path", "the kernel refuses it", id="socket-relative"
        )
        return
    listening = listens(scene.host.text("proc/net/unix"), pattern.path)
    if listening is None or not scene.first_namespaces:
        what, why = f"who listens on {pattern.path} is not seen from here", "with nobody there is no core"
        yield Finding("socket-unread", CORE, Level.UNREAD, what, why, f"ss -xl src {pattern.path}")
    elif not listening:
        why = "with no server at the socket the kernel keeps no core"
        yield _pattern_finding(
            scene, Level.LOST, f"nobody listens on {pattern.path}", why, id="socket-silent"
        )
    elif "llama-blackbox" in pattern.path:
        yield from _store(scene)


def listens(table: str | None, path: str) -> bool | None:
    """Whether /proc/net/unix holds a listening socket (flag 0x10000, SO_ACCEPTCON) of that path."""
    if table is None:
        return None
    rows = (line.split(None, 7) for line in table.splitlines()[1:])
    return any(len(row) == 8 and row[7] == path and int(row[3], 16) & 0x10000 for row in rows)
