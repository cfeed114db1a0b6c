"""The outbox's one writer: what is committed is on the disk, cursor and yield in one transaction."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzers.contracts.incident import IncidentRecord
from analyzers.contracts.outbox import DATABASE
from analyzers.errors import UserError
from collector.outbox import folder as places
from collector.outbox.apply import apply, count
from collector.outbox.blobs import Staged, UnfitError, remove_unnamed, stage, sweep
from collector.outbox.database import DamagedError, connect, damaged
from collector.outbox.limits import BUSY_SECONDS, DEFAULT_BYTES, FLUSH_SECONDS, RETRY_SECONDS
from collector.outbox.pending import Pending
from collector.outbox.room import Room, log_bytes
from collector.outbox.rows import Row
from collector.outbox.write import NewAttachment, Write

MOST_LOGS = 4  # times its share: a reader that keeps a transaction open lets the log grow
_INTERNAL = ("evidence_bytes",)


@dataclass(frozen=True)
class OutboxHealth:
    """How the outbox is. ``state``: ok | memory (the disk takes nothing: it goes on in memory).
    ``problem`` is one line with what to do; ``dropped`` counts by name what was let go; ``set_aside`` are
    names of damaged databases in the folder; ``waiting_bytes`` are not on the disk yet."""

    state: str = "ok"
    problem: str | None = None
    waiting_bytes: int = 0
    dropped: tuple[tuple[str, int], ...] = ()
    set_aside: tuple[str, ...] = ()
    commits: int = 0


class Store:
    """Open with ``open_store``. Used by one thread at a time. Nothing here raises for the disk: what cannot
    be written waits in bounded memory and ``health`` says so."""

    def __init__(
        self,
        folder: Path,
        lock: int,
        max_bytes: int = DEFAULT_BYTES,
        wall: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.max_bytes, self.sinks = folder, max_bytes, ()  # type: tuple[Path, int, tuple[str, ...]]
        self.pending = Pending()
        self.changes = 0  # rises with every incident and attachment handed in
        self._lock, self._wall, self._mono = lock, wall, mono
        self._db: sqlite3.Connection | None = None
        self._inode = 0
        self._since: float | None = None
        self._retry = float("-inf")
        self._problem: str | None = None
        self._counters: dict[str, int] = {}
        self._commits = 0
        self._aside = places.aside(folder)
        self._held = 0

    def put(self, write: Write) -> None:
        """Take ``write`` in; it is on the disk after the next ``flush`` or due ``tick``."""
        self.pending.put(write)
        self.changes += bool(write.incidents or write.attachments)
        if self._since is None and not self.pending.empty:
            self._since = self._mono()

    def commit(self, write: Write) -> bool:
        """``put`` and ``flush``: True when it is on the disk, synced."""
        self.put(write)
        return self.flush()

    def tick(self) -> bool:
        """Flush what is due: incidents at once, the rest once a second. True when nothing due waits."""
        if self._since is None:
            return True
        due = self.pending.urgent or self._mono() - self._since >= FLUSH_SECONDS
        return self.flush() if due else True

    def flush(self) -> bool:
        """Write what waits, in one transaction, and sync it. False when the disk did not take it: it is kept
        in memory, and nothing is tried again before two seconds have passed."""
        if self.pending.empty:
            return self._problem is None
        if self._problem is not None and self._mono() < self._retry:
            return False
        try:
            self._write_out()
        except DamagedError as error:
            return self._begin_anew(error)
        except (OSError, sqlite3.Error, UserError) as error:
            self._failed(error)
            return False
        self._problem = None
        return True

    def health(self) -> OutboxHealth:
        """As of the last flush."""
        waiting = self.pending
        totals = dict(self._counters)
        for name, number in waiting.dropped.items():
            totals[name] = totals.get(name, 0) + number
        dropped = tuple(sorted((k, v) for k, v in totals.items() if v and k not in _INTERNAL))
        state = "ok" if self._problem is None else "memory"
        problem = self._problem or self._grown()
        return OutboxHealth(state, problem, waiting.bytes, dropped, self._aside, self._commits)

    def note(self, *, progress: Iterable[Row] = (), asked: Iterable[Row] = ()) -> None:
        """How far deliveries are: rows of ``deliveries`` and ``wanted``, on the disk with the next flush."""
        self.pending.progress.update({(row[0], row[1]): row for row in progress})
        self.pending.asked.update({(row[0], row[1], row[2]): row for row in asked})
        if self._since is None and not self.pending.empty:
            self._since = self._mono()

    def cursors(self) -> dict[str, str]:
        """Where each stream goes on, the last one handed in included. Empty when nothing can be read."""
        rows = self.rows("SELECT stream, cursor FROM cursors")
        return {**{str(row[0]): str(row[1]) for row in rows}, **self.pending.cursors}

    def incident(self, ident: str) -> IncidentRecord | None:
        """The last revision of an incident, on the disk or still waiting."""
        waiting = self.pending.incidents.get(ident)
        found = [waiting] if waiting else self.rows("SELECT json FROM incidents WHERE id = ?", (ident,))
        try:
            return IncidentRecord.model_validate_json(found[0][-1]) if found else None
        except ValueError:
            return None

    def revised(self, record: IncidentRecord) -> IncidentRecord:
        """``record`` with the revision it must have to be stored: the stored record itself when it says the
        same, else one above it. So an agent that starts again never doubles or loses an incident."""
        stored = self.incident(record.id)
        if stored is None:
            return record
        same = {"revision": stored.revision, "revised_wall": stored.revised_wall}
        if record.model_copy(update=same) == stored:
            return stored
        return record.model_copy(update={"revision": max(record.revision, stored.revision + 1)})

    def open_incidents(self) -> list[IncidentRecord]:
        """Incidents that were open when the agent last ended, oldest first."""
        idents = [
            row[0] for row in self.rows("SELECT id FROM incidents WHERE state = 'open' ORDER BY opened")
        ]
        found = (self.incident(ident) for ident in idents)
        return [record for record in found if record is not None and record.state == "open"]

    def rows(self, question: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """A question to what is on the disk; nothing when it cannot be read."""
        try:
            return self._db.execute(question, values).fetchall() if self._db is not None else []
        except sqlite3.Error:
            return []

    def close(self) -> bool:
        """Flush a last time and let the outbox go. False when something could not be written."""
        self._retry = float("-inf")
        done = self.flush()
        self._disconnect()
        os.close(self._lock)
        return done

    def start(self) -> None:
        """Open the database, setting a damaged one aside. Raises UserError for a newer one; a disk that takes
        nothing is no reason not to start."""
        try:
            self._connect()
        except DamagedError as error:
            self._begin_anew(error)
        except (OSError, sqlite3.Error) as error:
            self._failed(error)

    def _connect(self) -> sqlite3.Connection:
        if self._db is not None and not self._vanished():
            return self._db
        self._disconnect()
        path = places.make_database(self.folder)
        db = connect(path, log_bytes(self.max_bytes))
        self._db, self._inode = db, path.stat().st_ino
        (self.folder / "attachments").mkdir(mode=0o700, exist_ok=True)
        sweep(self.folder, db)
        self._recount(db)
        return db

    def _vanished(self) -> bool:
        """Somebody removed or replaced the file: what is written to it would be seen by nobody."""
        try:
            return os.stat(self.folder / DATABASE, follow_symlinks=False).st_ino != self._inode
        except FileNotFoundError:
            if not self.folder.is_dir():
                lock = places.hold(self.folder)
                os.close(self._lock)
                self._lock = lock
            return True

    def _write_out(self) -> None:
        db = self._connect()
        staged, left, trouble = self._stage()
        room = Room(db, self.folder, self.max_bytes, self.sinks)
        unnamed = self._transaction(db, staged, room)
        self._commits += 1
        self.pending.taken(left)
        self._since = None if self.pending.empty else self._mono()
        remove_unnamed(self.folder, db, unnamed)
        room.give_back()
        self._fold(db)
        self._recount(db)
        if trouble is not None:
            raise trouble  # the metadata is safe; an attachment waits for space

    def _stage(self) -> tuple[list[Staged], list[NewAttachment], OSError | None]:
        """Attachments as files. One that the disk does not take must not keep the metadata from it."""
        staged: list[Staged] = []
        waiting = list(self.pending.attachments)
        while waiting:
            try:
                staged.append(stage(self.folder, waiting[0]))
            except UnfitError as unfit:
                self.pending.dropped[str(unfit)] += 1
            except OSError as error:
                return staged, waiting, error
            waiting.pop(0)
        return staged, [], None

    def _transaction(self, db: sqlite3.Connection, staged: list[Staged], room: Room) -> list[str]:
        """Returns digests of files that may have lost their row."""
        try:
            db.execute("BEGIN IMMEDIATE")
            unnamed = apply(db, self.pending, staged, self._wall())
            room.make()
            db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(db)
            if isinstance(error, sqlite3.DatabaseError) and damaged(error):
                raise DamagedError(str(error)) from error
            raise
        return unnamed + room.files

    def _roll_back(self, db: sqlite3.Connection) -> None:
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()

    def _recount(self, db: sqlite3.Connection) -> None:
        self._counters = dict(db.execute("SELECT name, value FROM counters").fetchall())

    def _begin_anew(self, error: DamagedError) -> bool:
        """Set the damaged database aside and write what waits into a new one."""
        self._disconnect()
        try:
            places.set_aside(self.folder)
            self._aside = places.aside(self.folder)
            db = self._connect()
            count(db, {"corrupt_databases": 1})
            self._write_out()
        except (DamagedError, OSError, sqlite3.Error, UserError) as trouble:
            self._failed(trouble)
            return False
        self._problem = None
        return True

    def _failed(self, error: Exception) -> None:
        self._retry = self._mono() + RETRY_SECONDS
        what = (error.strerror if isinstance(error, OSError) else None) or str(error)
        self._problem = (
            f"{self.folder}: nothing can be written ({what}): it goes on in memory; "
            "free space there or see its rights"
        )
        if isinstance(error, sqlite3.Error) and "full" not in str(error):
            self._disconnect()  # after an I/O error a new connection recovers what the old one cannot

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        try:
            if db is not None:
                db.close()
        except sqlite3.Error:
            return

    def _fold(self, db: sqlite3.Connection) -> None:
        """A log over its share is folded back at once, unless a reader that reads on and on needs it."""
        size = (self.folder / f"{DATABASE}-wal").stat().st_size
        if size <= log_bytes(self.max_bytes):
            self._held = 0
            return
        db.execute("PRAGMA busy_timeout = 0")
        busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        db.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
        self._held = size if busy else 0

    def _grown(self) -> str | None:
        """Told from four times its share on: a reader may be there for a moment."""
        if self._held <= MOST_LOGS * log_bytes(self.max_bytes):
            return None
        grown = f"a reader keeps the log from shrinking ({self._held >> 20} MiB)"
        return f"{self.folder}: {grown}; end what reads it"


def open_store(
    folder: Path,
    *,
    max_bytes: int = DEFAULT_BYTES,
    wall: Callable[[], float] = time.time,
    mono: Callable[[], float] = time.monotonic,
) -> Store:
    """The outbox in ``folder``, made when there is none. Raises UserError when another agent holds it, it is
    unsafe, or of a newer version. ``wall`` gives Unix seconds, ``mono`` seconds of a clock that never jumps.
    """
    store = Store(folder, places.hold(folder), max_bytes, wall, mono)
    try:
        store.start()
    except BaseException:
        store.close()
        raise
    return store
