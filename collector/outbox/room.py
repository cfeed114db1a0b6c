"""Keeps the outbox within its bytes, in the order of what is missed least; everything dropped is counted."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.contracts.outbox import CLOSED, DROPPED, KEPT, OPEN, PENDING
from collector.outbox.apply import EVIDENCE_BYTES, count
from collector.outbox.limits import EVICT_ROWS, EVIDENCE_SHARE, SLACK, WAL_BYTES

_OF_OPEN = (
    "EXISTS (SELECT 1 FROM incidents i WHERE i.state = 'open' AND i.pid = evidence.pid "
    "AND (i.boot_id IS NULL OR evidence.boot_id IS NULL OR i.boot_id = evidence.boot_id))"
)


@dataclass
class Room:
    """One round of making room inside the open transaction. ``files`` are digests that lost their row."""

    db: sqlite3.Connection
    folder: Path
    max_bytes: int
    sinks: tuple[str, ...] = ()
    files: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def make(self) -> None:
        """Raises sqlite3.Error."""
        evidence = self._evidence_bytes()
        most = int(self.max_bytes * EVIDENCE_SHARE)
        if evidence > most:
            self._evidence(evidence - most + int(most * SLACK), spare_open=True)
            self._evidence(self._evidence_bytes() - most, spare_open=False)
        over = self.size() - self.max_bytes
        if over > 0:
            self._all(over + int(self.max_bytes * SLACK))
        count(self.db, self.counted)

    def size(self) -> int:
        """Bytes that are needed: the database's pages in use, the log's share, the attachments."""
        return self._pages(self._one("PRAGMA freelist_count")) + log_bytes(self.max_bytes) + self._attached()

    def give_back(self) -> None:
        """After the transaction: pages that deletions left are cut off where they are missed."""
        free = self._one("PRAGMA freelist_count")
        if free and self.size() + free * self._one("PRAGMA page_size") > self.max_bytes:
            self.db.executescript("PRAGMA incremental_vacuum")  # execute() would free a single page

    def _pages(self, free: int) -> int:
        return (self._one("PRAGMA page_count") - free) * self._one("PRAGMA page_size")

    def _all(self, need: int) -> None:
        """The order: attachments, evidence, delivered closed incidents, evidence of open ones, the rest."""
        steps = (
            self._attachments,
            lambda need: self._evidence(need, spare_open=True),
            lambda need: self._incidents(need, f"state = '{CLOSED}' AND {self._delivered()}"),
            lambda need: self._evidence(need, spare_open=False),
            lambda need: self._incidents(need, f"state != '{OPEN}'"),
            lambda need: self._incidents(need, "1"),
        )
        for step in steps:
            if need <= 0:
                return
            need -= step(need)

    def _attachments(self, need: int) -> int:
        freed = 0
        rows = self.db.execute(
            "SELECT sha256, max(size), max(seq) AS newest FROM attachments WHERE state = ? "
            "GROUP BY sha256 ORDER BY newest",
            (KEPT,),
        ).fetchall()
        for digest, size, _ in rows:
            if freed >= need:
                break
            done = self.db.execute("UPDATE attachments SET state = ? WHERE sha256 = ?", (DROPPED, digest))
            self.counted["dropped_attachments"] += done.rowcount
            self.files.append(digest)
            freed += size
        return freed

    def _evidence(self, need: int, *, spare_open: bool) -> int:
        """Bytes of JSON that went."""
        freed, spared = 0, f"NOT {_OF_OPEN}" if spare_open else "1"
        while freed < need:
            rows = self.db.execute(
                f"SELECT seq, size FROM evidence WHERE {spared} ORDER BY seq LIMIT {EVICT_ROWS}"  # noqa: S608
            ).fetchall()
            chosen, sizes = [], 0
            for seq, size in rows:
                if freed + sizes >= need:
                    break
                chosen.append((seq,))
                sizes += size
            if not chosen:
                break
            self.db.executemany("DELETE FROM evidence WHERE seq = ?", chosen)
            self.counted["dropped_evidence"] += len(chosen)
            self.counted[EVIDENCE_BYTES] -= sizes
            freed += sizes
        return freed

    def _incidents(self, need: int, which: str) -> int:
        freed = 0
        question = f"SELECT id, size FROM incidents WHERE {which} ORDER BY opened LIMIT {EVICT_ROWS}"  # noqa: S608
        for ident, size in self.db.execute(question).fetchall():
            if freed >= need:
                break
            rows = self.db.execute("SELECT sha256 FROM attachments WHERE incident = ?", (ident,)).fetchall()
            self.files += [row[0] for row in rows]
            for table in ("attachments", "deliveries", "wanted"):
                self.db.execute(f"DELETE FROM {table} WHERE incident = ?", (ident,))  # noqa: S608 - constants
            self.db.execute("DELETE FROM incidents WHERE id = ?", (ident,))
            self.counted["dropped_incidents"] += 1
            freed += size
        return freed

    def _delivered(self) -> str:
        """Condition: every sink has it, or refused it. Without a sink nothing is delivered."""
        if not self.sinks:
            return "0"
        settled = f"d.incident = incidents.id AND d.state != '{PENDING}' AND d.revision >= incidents.revision"
        return f"{len(self.sinks)} <= (SELECT count(*) FROM deliveries d WHERE {settled})"  # noqa: S608

    def _evidence_bytes(self) -> int:
        row = self.db.execute("SELECT value FROM counters WHERE name = ?", (EVIDENCE_BYTES,)).fetchone()
        return (int(row[0]) if row else 0) + self.counted[EVIDENCE_BYTES]

    def _attached(self) -> int:
        question = (
            "SELECT coalesce(sum(size), 0) FROM "
            "(SELECT max(size) AS size FROM attachments WHERE state = ? GROUP BY sha256)"
        )
        return int(self.db.execute(question, (KEPT,)).fetchone()[0])

    def _one(self, question: str) -> int:
        return int(self.db.execute(question).fetchone()[0])


def log_bytes(max_bytes: int) -> int:
    """The log's share of the bound."""
    return min(WAL_BYTES, int(max_bytes * SLACK))
