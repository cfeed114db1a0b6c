"""systemd-coredump: what coredump.conf lets it keep of a core of this size."""

from __future__ import annotations

import os
from collections.abc import Iterator

from collector.check.host import Conf, Host, Setting, seconds_of, size_of
from collector.check.model import CORE, Finding, Level, size_text
from collector.check.scene import Scene

STORE = "var/lib/systemd/coredump"
# src/coredump/coredump.c of 2021 and later on 64 bits; before it was 2G. A vendor's file that shows another
# default in its comments is believed.
PROCESS_SIZE_MAX = EXTERNAL_SIZE_MAX = "32G"
JOURNAL_SIZE_MAX = "767M"
MAX_USE_SHARE, KEEP_FREE_SHARE = 0.10, 0.15  # of the file system
KEPT_SECONDS = 3 * 86400.0  # shorter than this, a long weekend loses the core
_TMPFILES = ("etc/tmpfiles.d", "run/tmpfiles.d", "usr/local/lib/tmpfiles.d", "usr/lib/tmpfiles.d")


def systemd_rules(scene: Scene) -> Iterator[Finding]:
    """Storage, sizes, room, its socket, and how long it keeps what it took."""
    conf = scene.host.conf("coredump.conf", "Coredump")
    storage = conf.get("Storage", "external")
    if storage.value == "none":
        why = "systemd-coredump logs the crash and keeps no core"
        change = conf.drop_in("Storage=external")
        yield Finding("storage", CORE, Level.LOST, "Storage=none", why, change, str(storage))
        return
    yield from _socket(scene.host)
    if storage.value == "journal":
        yield from _journal(scene, conf)
    else:
        yield from _external(scene, conf)
        yield from _room(scene, conf)
        yield from _age(scene.host)


def _socket(host: Host) -> Iterator[Finding]:
    if not host.exists("run/systemd/coredump"):
        running = host.exists("run/systemd/system")
        why = "the handler hands the core to systemd-coredump.socket, and gives up when that is not there"
        change = (
            "systemctl start systemd-coredump.socket"
            if running
            else ("another handler: this host does not run systemd (sudo llama-blackbox capture install)")
        )
        what = "systemd-coredump's socket is not there"
        yield Finding(
            "coredump-socket", CORE, Level.LOST, what, why, change, "/run/systemd/coredump is missing"
        )


def _external(scene: Scene, conf: Conf) -> Iterator[Finding]:
    """It streams up to the larger of the two sizes, then drops a file larger than ExternalSizeMax."""
    expected = scene.expected
    process, external = (
        conf.get("ProcessSizeMax", PROCESS_SIZE_MAX),
        conf.get("ExternalSizeMax", EXTERNAL_SIZE_MAX),
    )
    first, second = size_of(process.value), size_of(external.value)
    if expected is None or first is None or second is None:
        return
    present = f"ProcessSizeMax={process}, ExternalSizeMax={external}"
    change = conf.drop_in(
        f"ProcessSizeMax={_enough(expected.size)} and ExternalSizeMax={_enough(expected.size)}"
    )
    if second == 0:
        why = "ExternalSizeMax=0 lets no core be kept"
        yield Finding("external-size", CORE, Level.LOST, "ExternalSizeMax=0", why, change, present)
    elif max(first, second) < expected.size:
        what = f"a core of {size_text(expected.size)} is cut at {size_text(max(first, second))}"
        why = (
            "systemd-coredump stores the larger of ProcessSizeMax and ExternalSizeMax and marks it truncated"
        )
        yield Finding("external-size", CORE, Level.RISK, what, why, change, present)
    elif second < expected.size:
        what = f"a core of {size_text(expected.size)} is dropped unless it packs into {size_text(second)}"
        why = "what is larger than ExternalSizeMax once it is compressed is removed again"
        yield Finding("external-size", CORE, Level.RISK, what, why, change, present)


def _journal(scene: Scene, conf: Conf) -> Iterator[Finding]:
    expected, most = scene.expected, conf.get("JournalSizeMax", JOURNAL_SIZE_MAX)
    size = size_of(most.value)
    if expected is not None and size is not None and size < expected.size:
        what = f"a core of {size_text(expected.size)} is larger than JournalSizeMax"
        why = "systemd-coredump then keeps no core, only the record of the crash"
        change = conf.drop_in("Storage=external")
        yield Finding("journal-size", CORE, Level.LOST, what, why, change, f"JournalSizeMax={most}")


def _enough(size: int) -> str:
    """Twice the size, in whole GiB."""
    return f"{max(2 * size >> 30, 2)}G"


def _room(scene: Scene, conf: Conf) -> Iterator[Finding]:
    try:
        room = os.statvfs(scene.host.root / STORE)
    except OSError:
        why = "systemd-coredump makes the folder when it is missing; the room there was not looked at"
        yield Finding("store", CORE, Level.NOTE, f"/{STORE} could not be looked at", why)
        return
    expected = scene.expected
    if expected is None:
        return
    free, whole = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    if free < expected.written:
        what = f"/{STORE} has {size_text(free)} free; a core takes {size_text(expected.written)} unpacked"
        why = "the core would be cut where the disk is full"
        yield Finding("disk", CORE, Level.RISK, what, why, f"free space at /{STORE}", size_text(free))
    yield from _quota(conf, expected.written, free, whole)


def _quota(conf: Conf, size: int, free: int, whole: int) -> Iterator[Finding]:
    use, keep = conf.get("MaxUse", ""), conf.get("KeepFree", "")
    most = size_of(use.value) if use.value else int(whole * MAX_USE_SHARE)
    least = size_of(keep.value) if keep.value else int(whole * KEEP_FREE_SHARE)
    if most is not None and 0 < most < size:
        what = f"one core of {size_text(size)} is more than MaxUse ({size_text(most)})"
        why = "the next crash removes it, or it removes the ones before: cores in use are thinned to MaxUse"
        change = conf.drop_in(f"MaxUse={_enough(size)}")
        yield Finding("max-use", CORE, Level.RISK, what, why, change, f"MaxUse={_shown(use, '10%')}")
    if least is not None and free - size < least:
        what = f"after one core less than KeepFree ({size_text(least)}) is free"
        why = "systemd-coredump then removes the cores it has, the oldest first"
        change = conf.drop_in("KeepFree=1G") + ", or free space"
        yield Finding(
            "keep-free",
            CORE,
            Level.RISK,
            what,
            why,
            change,
            f"KeepFree={_shown(keep, '15%')}, {size_text(free)} free",
        )


def _shown(setting: Setting, default: str) -> str:
    return str(setting) if setting.value else f"{default} of the file system (the default)"


def _age(host: Host) -> Iterator[Finding]:
    """systemd-tmpfiles removes cores by age; the first folder that has the file's name wins."""
    seen: dict[str, str] = {}
    for folder in _TMPFILES:
        try:
            names = sorted(os.listdir(host.root / folder))
        except OSError:
            continue
        for name in names:
            seen.setdefault(name, f"{folder}/{name}")
    for path in (seen[name] for name in sorted(seen)):
        for line in (host.text(path) or "").splitlines():
            words = line.split()
            if len(words) >= 6 and words[0][0] in "dDQ" and words[1].rstrip("/") == f"/{STORE}":
                yield _aged(words[5], f"/{path}")
                return


def _aged(age: str, path: str) -> Finding:
    span = seconds_of(age.lstrip("abcmABCM~:")) if age != "-" else None
    level = Level.RISK if span is not None and span < KEPT_SECONDS else Level.NOTE
    change = f"d /{STORE} 0755 root root 2w in /etc/tmpfiles.d/{path.rpartition('/')[2]} (a copy of {path})"
    words = f"cores are removed after {age}" if span is not None else "cores are never removed by age"
    return Finding(
        "core-age", CORE, level, words, "systemd-tmpfiles cleans the store daily", change, f"{age} ({path})"
    )
