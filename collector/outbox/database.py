"""Opens the outbox's database for its one writer: made, migrated, checked."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from analyzers.contracts.outbox import APPLICATION_ID, MIGRATIONS, VERSION
from analyzers.contracts.outbox_read import demand_known
from analyzers.errors import UserError
from collector.outbox.limits import BUSY_SECONDS, CHECKED_BYTES, PAGE

DAMAGE = ("malformed", "not a database", "disk image", "corrupt", "missing from index")


class DamagedError(Exception):
    """The database is damaged; the message is SQLite's."""


def connect(path: Path, log_bytes: int) -> sqlite3.Connection:
    """The database, of this program's version; its log is folded back at half of ``log_bytes``.

    Raises DamagedError, UserError (newer, or no outbox) and
    sqlite3.OperationalError (full disk, no rights)."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _set_up(connection, log_bytes)
        _check(connection, path)
    except sqlite3.DatabaseError as error:
        connection.close()
        if damaged(error):
            raise DamagedError(str(error)) from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def damaged(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is to blame, not the disk or the moment."""
    return any(word in str(error) for word in DAMAGE)


def _set_up(connection: sqlite3.Connection, log_bytes: int) -> None:
    run = connection.execute
    fresh = run("PRAGMA page_count").fetchone()[0] == 0
    if fresh:
        run("PRAGMA auto_vacuum = INCREMENTAL")
    else:
        demand_known(connection, _folder_of(connection))
    mode = run("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise UserError(
            "its file system cannot hold a write-ahead log",
            where=str(_folder_of(connection)),
            remedy="put the outbox on a local disk",
        )
    run("PRAGMA synchronous = FULL")
    run(f"PRAGMA wal_autocheckpoint = {log_bytes // (2 * PAGE)}")
    run(f"PRAGMA journal_size_limit = {log_bytes}")
    run("PRAGMA cache_size = -2048")
    _migrate(connection)


def _folder_of(connection: sqlite3.Connection) -> Path:
    return Path(connection.execute("PRAGMA database_list").fetchone()[2]).parent


def _migrate(connection: sqlite3.Connection) -> None:
    """Every step in one transaction: a kill in between leaves the old version, whole."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version >= VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[version:]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if path.stat().st_size <= CHECKED_BYTES:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise DamagedError(str(found).replace("\n", " "))
    for table in ("cursors", "incidents", "counters"):  # small, and every one of them is needed
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - constants
