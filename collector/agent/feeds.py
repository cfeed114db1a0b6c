"""The agent's streams: which there are on this host, and which more each server brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.contracts.evidence import Incarnation
from collector.agent.config.model import SourcesTable
from collector.agent.roster import Roster
from collector.discovery.model import Found
from collector.sources.follow.containers import container_log, container_stream
from collector.sources.follow.cores import CoreStream
from collector.sources.follow.files import FileStream
from collector.sources.follow.journal import JournalStream
from collector.sources.follow.journal_open import Journal
from collector.sources.follow.kmsg import kernel_source
from collector.sources.follow.lines import Lines
from collector.sources.follow.opening import Place, output_places
from collector.sources.follow.plugins import plugin_streams
from collector.sources.follow.samples import SampleStream
from collector.sources.follow.units import UnitStream
from collector.sources.stream import Stream

# A server that was found late is read from its first line on, as far as the journal goes back.
RECALL_SECONDS = 3600.0
FAILED = "failed"


@dataclass
class Feeds:
    """Every stream of this run. ``notes`` say what was left out and why."""

    common: list[Stream] = field(default_factory=list)
    journals: list[JournalStream] = field(default_factory=list)
    samples: SampleStream | None = None
    units: UnitStream | None = None
    own: dict[int, list[FileStream]] = field(default_factory=dict)  # by PID
    notes: list[str] = field(default_factory=list)
    cursors: Mapping[str, str] = field(default_factory=dict)
    lines: Lines = field(default_factory=Lines)  # what shapes of lines tell is the same in every file
    places: Callable[[Found], list[Place]] = lambda found: places_of(found)  # its log files
    files: bool = True
    containers: bool = True

    def all(self) -> list[Stream]:
        """Those to be polled, in order: what names a death soonest first."""
        return [*self.common, *(stream for streams in self.own.values() for stream in streams)]

    def born(self, found: Found, *, fresh: bool) -> None:
        """A server came: its own files and its container's log. ``fresh``: it started under our eyes, so that
        its files are read from their beginning."""
        if found.pid in self.own:
            return
        streams = [*self._files(found, fresh), *self._container(found, fresh)]
        if streams:
            self.own[found.pid] = streams
        self._wanted()

    def ended(self, pid: int) -> None:
        """A server went; its last lines were taken by the polls before."""
        for stream in self.own.pop(pid, []):
            stream.close()
        self._wanted()

    def dying(self) -> None:
        """A server has died just now: ask its manager at once, where there is no journal."""
        if self.units is not None:
            self.units.soon()

    def watch(self, living: Sequence[Found]) -> None:
        """The processes that are sampled, and the units that are asked about, from now on."""
        if self.samples is not None:
            self.samples.watch(each.pid for each in living)
        if self.units is not None:
            told = any(stream.health().state not in (FAILED, "waiting") for stream in self.journals)
            # The journal says the same sooner and completely; asking besides would only double it.
            self.units.watch([] if told else {each.place.unit for each in living if each.place.unit})

    def close(self) -> None:
        """Give every descriptor back."""
        for stream in self.all():
            stream.close()

    def _wanted(self) -> None:
        for journal in self.journals:
            journal.refresh()

    def _files(self, found: Found, fresh: bool) -> Iterable[FileStream]:
        if not self.files:
            return []
        return [self._file(place, found.incarnation, fresh) for place in self.places(found)]

    def _file(self, place: Place, who: Incarnation, fresh: bool) -> FileStream:
        cursor = self.cursors.get(f"file:{place.name}:{who.pid}")
        return FileStream(place, who, cursor=cursor, whole=fresh, lines=self.lines)

    def _container(self, found: Found, fresh: bool) -> Iterable[FileStream]:
        if not self.containers or found.place.container is None or found.role == "child":
            return []  # a router's children print through it: one log, read once
        path = container_log(found.place.container)
        if path is None:
            return []
        cursor = self.cursors.get(f"file:{path}:{found.pid}")
        return [container_stream(path, found.incarnation, cursor=cursor, whole=fresh)]


def places_of(found: Found) -> list[Place]:
    """A server's log files as this process can open them."""
    places = output_places(found.pid)
    if found.log_file is not None:
        places.append(Place(Path(found.log_file), root_of=found.pid))
    return places


def make_feeds(
    table: SourcesTable,
    cursors: Mapping[str, str],
    roster: Roster,
    *,
    kernel_device: Path | int | None = None,
) -> Feeds:
    """The host's streams as the settings want them, each going on where ``cursors`` says."""
    feeds = Feeds(cursors=cursors, files=table.own_log_files, containers=table.containers)
    wanted = _asker(roster)
    if table.journal:
        kinds = [Journal(), *(Journal(namespace=name) for name in table.namespaces)]
        feeds.journals = [JournalStream(kind, wanted, cursor=cursors.get(kind.name)) for kind in kinds]
        others, inside = [Journal(folder=folder) for folder in table.journal_folders], _asker_inside(roster)
        feeds.journals += [JournalStream(kind, inside, cursor=cursors.get(kind.name)) for kind in others]
    if table.kernel:
        first = feeds.journals[0] if feeds.journals else None
        device = {} if kernel_device is None else {"device": kernel_device}
        kernel = kernel_source(first, cursor=cursors.get("kernel"), **device)
        if kernel is not None:
            feeds.common.append(kernel)
        else:
            feeds.notes.append("the kernel's log may not be read: its lines come with the journal, if at all")
    feeds.common += feeds.journals
    _add_rest(feeds, table, cursors)
    return feeds


def _add_rest(feeds: Feeds, table: SourcesTable, cursors: Mapping[str, str]) -> None:
    if table.captures is not None or table.core_folders:
        feeds.common.append(CoreStream(table.captures, table.core_folders, cursor=cursors.get("cores")))
    if table.units:
        feeds.units = UnitStream(cursor=cursors.get("units"))
        feeds.common.append(feeds.units)
    feeds.samples = SampleStream()
    feeds.common.append(feeds.samples)
    for path in table.log_files:
        place = Place(path)
        cursor = cursors.get(f"file:{place.name}:None")
        feeds.common.append(FileStream(place, Incarnation(), cursor=cursor))
    if table.plugins:
        streams, notes = plugin_streams()
        feeds.common += streams
        feeds.notes += notes


def _asker(roster: Roster) -> Callable[[int | None, str | None], Incarnation | bool | None]:
    """Whether the journal's sender is a server of ours: by its PID, and by a service that holds one (a script
    around the server prints too, and a router's child before it is found). A login's scope holds anything."""

    def wanted(pid: int | None, unit: str | None) -> Incarnation | bool | None:
        known = roster.by_pid(pid) if pid is not None else None
        if known is not None:
            return known.incarnation
        return unit is not None and unit in roster.units

    return wanted


def _asker_inside(roster: Roster) -> Callable[[int | None, str | None], Incarnation | bool | None]:
    """The same for a folder of journal files, which is another system's (a container's): its PIDs are those
    of its own namespace, and a number that nobody there has is nobody's here."""

    def wanted(pid: int | None, unit: str | None) -> Incarnation | bool | None:
        if pid is None:
            return unit is not None and unit in roster.units
        known = roster.by_inner_pid(pid, unit)
        return known.incarnation if known is not None else None

    return wanted


def close_all(streams: Iterable[Stream]) -> None:
    """Close them, whatever one of them does."""
    for stream in streams:
        with suppress(Exception):
            stream.close()
