"""Slices of the host's journal in export format, by journalctl: nothing else is needed on a systemd host.

Read only, bounded: the first megabyte of a slice (build, settings, load) and its end are kept.
"""

from __future__ import annotations

import importlib.util
import io
import shlex
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from analyzers.logs.entries import Entry, export_entries
from analyzers.privacy.visible import visible
from collector.gather.tools import Ran, run

TOOL = "journalctl"
HEAD_BYTES, TAIL_BYTES = 1 << 20, 31 << 20  # 32 MiB are some 25,000 entries and compress to 1-2 MiB
JOURNAL_SECONDS = 60.0  # a persistent journal of 4 GB on a slow disk; matches by field take milliseconds
READER_NEEDS = "systemd"  # the module of systemd-python
PLACES = (Path("/var/log/journal"), Path("/run/log/journal"))
MOST_ENTRIES = 25_000  # what journalctl's slice holds at the usual size of an entry
ENTRY_START = b"\n\n__CURSOR="
NO_JOURNAL = "docker logs NAME > server.log, or the file its output goes to"
_HIDDEN = "not seeing messages from other users"


@dataclass(frozen=True)
class Slice:
    """Export format, whole entries; ``gaps`` say what is not in it."""

    data: bytes = b""
    gaps: tuple[Gap, ...] = ()

    def entries(self) -> Iterator[Entry]:
        """The entries, environments and stored cores left out."""
        return export_entries(io.BytesIO(self.data), "journal")


def demand_folder(folder: Path | None) -> Path | None:
    """``folder``, when it is one or none was named. Raises UserError."""
    if folder is not None and not folder.is_dir():
        what = "not a folder" if folder.exists() else "no such folder"
        raise UserError(what, where=f"--journal {folder}", remedy="give a folder of .journal files")
    return folder


@dataclass
class Journal:
    """The host's journal, or the one below ``folder`` (a rescued disk, a namespace, a test)."""

    folder: Path | None = None
    seconds: float = JOURNAL_SECONDS
    _gaps: dict[str, Gap] = field(default_factory=dict)

    def slice(
        self,
        matches: Sequence[str] = (),
        *,
        since: float | None = None,
        until: float | None = None,
        boot: str | None = None,
        newest: int | None = None,
        head_only: int | None = None,
    ) -> Slice:
        """The entries that ``matches`` (FIELD=value; ``+`` is "or") choose. Unix seconds. Raises nothing."""
        argv = [TOOL, "--no-pager", "--output=export", *self._place()]
        argv += [f"--since=@{since:.6f}"] if since is not None else []
        argv += [f"--until=@{until:.6f}"] if until is not None else []
        argv += [f"--boot={boot}"] if boot is not None else []
        argv += [f"--lines={newest}"] if newest is not None else []
        if shutil.which(TOOL) is None and importlib.util.find_spec(READER_NEEDS) is not None:
            return self._by_reader(matches, since, until, boot, newest)
        head = head_only or HEAD_BYTES
        ran = run([*argv, *matches], seconds=self.seconds, head=head, tail=None if head_only else TAIL_BYTES)
        return Slice(_whole(ran), tuple(self._missed(ran, argv, matches, head_only is not None)))

    def _by_reader(
        self,
        matches: Sequence[str],
        since: float | None,
        until: float | None,
        boot: str | None,
        newest: int | None,
    ) -> Slice:
        """The same through systemd-python, where a container has the journal's files and not its tool."""
        from collector.sources.journald import Written, export_entry, journal_entries

        files = [
            path for place in ([self.folder] if self.folder else PLACES) for path in place.rglob("*.journal")
        ]
        if not files:
            why = f"{TOOL} is not here, nor are journal files"
            return Slice(gaps=(Gap(what="journal", why=why, command=NO_JOURNAL),))
        kept: deque[bytes] = deque(maxlen=newest or MOST_ENTRIES)
        wanted = any_of(matches)
        for entry in journal_entries(files, Written()):
            at = int(entry["__REALTIME_TIMESTAMP"]) / 1e6
            here = boot is None or _value(entry, "_BOOT_ID") == boot.encode()
            if here and (since or 0.0) <= at <= (until or at) and wanted(entry):
                kept.append(export_entry(entry))
        return Slice(b"".join(kept))

    def boots(self) -> list[tuple[int, str]]:
        """(offset, boot id) of every boot the journal knows, the oldest first."""
        ran = run([TOOL, "--no-pager", "--list-boots", *self._place()], seconds=self.seconds)
        rows = (line.split()[:2] for line in ran.out.decode("utf-8", "replace").splitlines())
        return [(int(row[0]), row[1]) for row in rows if len(row) == 2 and row[0].lstrip("-").isdigit()]

    def _has_files(self) -> bool:
        places = [self.folder] if self.folder else PLACES
        return any(next(place.rglob("*.journal*"), None) is not None for place in places)

    def _place(self) -> list[str]:
        return [f"--directory={self.folder}"] if self.folder else []

    def _missed(
        self, ran: Ran, argv: Sequence[str], matches: Sequence[str], head_only: bool
    ) -> Iterator[Gap]:
        command = f"{shlex.join(['sudo', *argv, *map(visible, matches)])} > server.export"
        if ran.outcome == "missing":
            yield Gap(what="journal", why=f"{TOOL} is not installed", command=NO_JOURNAL)
        elif ran.outcome == "time":
            yield Gap(what="part of the journal", why=f"it took over {self.seconds:.0f} s", command=command)
        elif _HIDDEN in ran.complaint:
            why = "this user sees only its own entries (group systemd-journal or adm, or root, sees all)"
            yield Gap(what="journal", why=why, command=command)
        elif not ran.out and not self._has_files():  # journalctl itself says nothing then
            yield Gap(
                what="journal", why="this host keeps none, or none that this user may open", command=command
            )
        elif not head_only and ran.status not in (0, None) and ran.complaint.strip():
            yield Gap(what="journal", why=ran.why, command=command)
        if ran.dropped:
            why = (
                f"the slice is large: {ran.dropped >> 20} MiB between its beginning and its end were left out"
            )
            yield Gap(what="the middle of the journal", why=why, command=command)


def any_of(matches: Sequence[str]) -> Callable[[Mapping[str, Any]], bool]:
    """journalctl's matches as a test: all fields of a group fit (of one name: any), ``+`` is "or"."""
    groups: list[dict[str, set[bytes]]] = [{}]
    for match in matches:
        name, _, value = match.partition("=")
        if match == "+":
            groups.append({})
        else:
            groups[-1].setdefault(name, set()).add(value.encode())
    return lambda entry: any(all(_value(entry, n) in v for n, v in group.items()) for group in groups)


def _value(entry: Mapping[str, Any], name: str) -> bytes:
    value = entry.get(name, b"")
    found = value[0] if isinstance(value, list) and value else value
    return found if isinstance(found, bytes) else b""


def _whole(ran: Ran) -> bytes:
    """Whole entries only: where the middle was left out, and where the reading stopped."""
    data = ran.out
    if ran.dropped:
        head, tail = data[: ran.head], data[ran.head :]
        end, start = head.rfind(ENTRY_START), tail.find(ENTRY_START)
        data = head[: end + 2 if end >= 0 else 0] + (tail[start + 2 :] if start >= 0 else b"")
    if ran.outcome != "ran":
        end = data.rfind(ENTRY_START)
        data = data[: end + 2] if end >= 0 else b""
    return data
