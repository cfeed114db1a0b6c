"""A full disk, a small bound, a damaged file: nothing is half written, and what went is counted."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from outbox_parts import Clock, facts, incident, life, store

from analyzers.contracts.outbox import ATTACHMENTS, CLOSED, DATABASE, DELIVERED
from analyzers.contracts.outbox_read import open_reading
from collector.outbox import limits
from collector.outbox.store import Store
from collector.outbox.write import NewAttachment, Write

SMALL = 2 << 20


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def dropped(writer: Store) -> dict[str, int]:
    return dict(writer.health().dropped)


def attachment(number: int, size: int, pid: int = 42) -> NewAttachment:
    data = number.to_bytes(4, "little") * (size // 4)
    return NewAttachment(incident(pid).id, f"file-{number}", "log", data)


def test_the_oldest_attachments_go_first_and_are_counted(tmp_path: Path) -> None:
    writer = store(tmp_path, max_bytes=SMALL)
    writer.commit(facts(0, 100))
    for number in range(40):
        assert writer.commit(Write(incidents=(incident(),), attachments=(attachment(number, 128 << 10),)))
        assert on_disk(tmp_path / "outbox") <= SMALL + (1 << 20)
    with open_reading(tmp_path / "outbox") as outbox:
        rows = outbox.attachments(incident().id)
        kept = {row.name for row in rows if row.state == "kept"}
        assert {row.name for row in rows if outbox.attachment_path(row)} == kept
        assert len(outbox.incidents()) == 1
        assert len(outbox.evidence_of(life())) == 100
    # THEN the newest are there, the others are told of and counted
    assert "file-39" in kept
    assert "file-0" not in kept
    assert dropped(writer) == {"dropped_attachments": 40 - len(kept)}
    writer.close()


def test_the_ring_of_evidence_keeps_to_its_share_and_spares_open_incidents(tmp_path: Path) -> None:
    writer = store(tmp_path, max_bytes=SMALL)
    # GIVEN facts of a server that an open incident is about, the oldest of all
    writer.commit(Write(incidents=(incident(42),)))
    writer.commit(facts(0, 20, pid=42))
    for number in range(20):
        writer.commit(facts(1000 * number, 500, pid=77))
    # THEN the others' oldest went, counted, and the share was kept to
    total = writer.rows("SELECT sum(size), count(*) FROM evidence")[0]
    assert total[0] <= SMALL * limits.EVIDENCE_SHARE
    assert writer.rows("SELECT count(*) FROM evidence WHERE pid = 42") == [(20,)]
    assert dropped(writer) == {"dropped_evidence": 20 + 10_000 - total[1]}
    running = writer.rows("SELECT value FROM counters WHERE name = 'evidence_bytes'")
    assert running == [(total[0],)]
    # WHEN the incident is closed THEN its facts are as good as the others
    writer.commit(Write(incidents=(incident(42, revision=2, state=CLOSED),)))
    for number in range(5):
        writer.commit(facts(1000 * number, 500, pid=77))
    assert writer.rows("SELECT count(*) FROM evidence WHERE pid = 42") == [(0,)]
    writer.close()


def test_delivered_closed_incidents_go_before_undelivered_ones(tmp_path: Path) -> None:
    writer = store(tmp_path, max_bytes=SMALL)
    writer.sinks = ("hub",)
    text = "x" * 20_000
    for pid in range(100, 220):
        record = incident(pid, state=CLOSED, summary=text)
        writer.commit(Write(incidents=(record,)))
        if pid % 2:
            writer.pending.progress["hub", record.id] = ("hub", record.id, 1, DELIVERED, 0, None)
            assert writer.flush()
    left = {row[0] for row in writer.rows("SELECT pid FROM incidents")}
    gone = set(range(100, 220)) - left
    assert dropped(writer)["dropped_incidents"] == len(gone)
    # THEN the oldest delivered ones went, and none that is still to be delivered
    assert gone
    assert gone == {pid for pid in range(100, max(gone) + 1) if pid % 2}
    assert on_disk(tmp_path / "outbox") <= SMALL + limits.WAL_BYTES
    writer.close()


def test_without_space_it_goes_on_in_memory_and_recovers(tmp_path: Path) -> None:
    clock = Clock()
    writer = store(tmp_path, clock)
    writer.commit(facts(0, 3))
    # GIVEN a disk that takes nothing more
    pages = writer.rows("PRAGMA page_count")[0][0]
    assert writer._db is not None
    writer._db.execute(f"PRAGMA max_page_count = {pages}")
    assert not writer.commit(facts(3, 2000, text="y" * 200))
    health = writer.health()
    assert health.state == "memory"
    assert "goes on in memory" in (health.problem or "")
    assert "\n" not in (health.problem or "")
    # THEN nothing half was written, and incidents are known all the same
    assert not writer.commit(Write(incidents=(incident(),)))
    assert writer.incident(incident().id) is not None
    with open_reading(tmp_path / "outbox") as outbox:
        assert outbox.cursors() == {"journal": "c3"}
        assert len(outbox.evidence_of(life())) == 3
    # WHEN there is space again THEN all of it is written, once, without a restart
    writer._db.execute("PRAGMA max_page_count = 1000000")
    assert not writer.flush(), "not before its time"
    clock.now += limits.RETRY_SECONDS
    assert writer.tick()
    assert writer.health().state == "ok"
    with open_reading(tmp_path / "outbox") as outbox:
        assert outbox.cursors() == {"journal": "c2003"}
        assert len({item.id for item in outbox.evidence_of(life())}) == 2003
    writer.close()


def test_memory_is_bounded_and_the_loss_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMORY_BYTES", 100_000)
    clock = Clock()
    writer = store(tmp_path, clock)
    assert writer._db is not None
    writer._db.execute("PRAGMA max_page_count = 1")
    writer.commit(Write(incidents=(incident(),)))
    for number in range(50):
        writer.put(facts(number * 100, 100))
        writer.tick()
    assert writer.pending.bytes <= 100_000
    lost = dropped(writer)["dropped_evidence"]
    assert lost > 3000
    writer._db.execute("PRAGMA max_page_count = 1000000")
    clock.now += limits.RETRY_SECONDS
    assert writer.tick()
    # THEN the newest are there, the incident too, and the count is on the disk
    assert writer.rows("SELECT count(*) FROM evidence") == [(5000 - lost,)]
    assert writer.rows("SELECT count(*) FROM incidents") == [(1,)]
    assert writer.cursors() == {"journal": "c5000"}
    assert dropped(writer) == {"dropped_evidence": lost}
    writer.close()


def test_an_attachment_that_does_not_fit_keeps_no_metadata_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collector.outbox import store as module

    def full(folder: Path, new: NewAttachment) -> None:
        raise OSError(28, "No space left on device")

    clock = Clock()
    writer = store(tmp_path, clock)
    with monkeypatch.context() as patched:
        patched.setattr(module, "stage", full)
        assert not writer.commit(Write(incidents=(incident(),), attachments=(attachment(1, 4096),)))
        assert writer.rows("SELECT count(*) FROM incidents") == [(1,)]
        assert "no space left" in (writer.health().problem or "").lower()
    clock.now += limits.RETRY_SECONDS
    assert writer.tick()
    assert writer.rows("SELECT state FROM attachments") == [("kept",)]
    writer.close()


@pytest.mark.parametrize("damage", ["header", "middle", "cut"])
def test_a_damaged_database_is_set_aside_and_named(tmp_path: Path, damage: str) -> None:
    writer = store(tmp_path)
    writer.commit(Write(incidents=(incident(),), attachments=(attachment(1, 4096),)))
    writer.commit(facts(0, 500))
    writer.close()
    path = tmp_path / "outbox" / DATABASE
    whole = path.read_bytes()
    harmed = {
        "header": b"\xff" * 100 + whole[100:],
        "middle": whole[:4096] + b"\x5a" * (len(whole) - 4096),
        "cut": whole[: len(whole) // 2],
    }[damage]
    path.write_bytes(harmed)
    # WHEN the agent starts THEN it works at once, and the old file lies there unchanged, with its files
    again = store(tmp_path)
    assert again.commit(Write(incidents=(incident(43),)))
    (name,) = again.health().set_aside
    assert (tmp_path / "outbox" / name).read_bytes() == harmed
    (old,) = (tmp_path / "outbox").glob(f"{ATTACHMENTS}.corrupt-*")
    assert len(list(old.iterdir())) == 1
    assert dropped(again) == {"corrupt_databases": 1}
    again.close()


def test_damage_while_it_runs_costs_nothing_that_waits(tmp_path: Path) -> None:
    writer = store(tmp_path)
    writer.commit(facts(0, 5000))
    assert writer._db is not None
    writer._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = tmp_path / "outbox" / DATABASE
    with path.open("r+b") as file:
        file.seek(0)
        file.write(b"\x5a" * path.stat().st_size)
    writer._db.execute("PRAGMA shrink_memory")
    for number in range(3):
        writer.commit(Write(incidents=(incident(50 + number),)))
    assert writer.health().state == "ok"
    assert len(writer.health().set_aside) == 1
    assert writer.rows("SELECT count(*) FROM incidents") == [(3,)]
    writer.close()


def test_a_removed_outbox_is_made_anew(tmp_path: Path) -> None:
    clock = Clock()
    writer = store(tmp_path, clock)
    writer.commit(facts(0, 3))
    for path in (tmp_path / "outbox").glob(f"{DATABASE}*"):
        path.unlink()
    assert writer.commit(Write(incidents=(incident(),)))
    with sqlite3.connect(tmp_path / "outbox" / DATABASE) as seen:
        assert seen.execute("SELECT count(*) FROM incidents").fetchone() == (1,)
    seen.close()
    writer.close()


def test_a_smaller_bound_shrinks_what_is_there(tmp_path: Path) -> None:
    writer = store(tmp_path, max_bytes=64 << 20)
    for number in range(30):
        writer.commit(facts(number * 500, 500, text="z" * 300))
    writer.close()
    before = on_disk(tmp_path / "outbox")
    again = store(tmp_path, max_bytes=SMALL)
    again.commit(facts(0, 1))
    again.close()
    assert before > 2 * SMALL
    assert on_disk(tmp_path / "outbox") <= SMALL


def test_a_reader_that_never_ends_is_named_and_costs_no_incident(tmp_path: Path) -> None:
    writer = store(tmp_path, max_bytes=SMALL)
    writer.commit(Write(incidents=(incident(),)))
    # GIVEN a foreign reader in the middle of a transaction
    reader = sqlite3.connect(tmp_path / "outbox" / DATABASE, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM incidents").fetchone() == (1,)
    # WHEN the agent writes on THEN it is not held up, nothing goes for the log's sake, and it is named
    for number in range(20):
        assert writer.commit(facts(number * 100, 100, text="y" * 200))
    assert "a reader keeps the log from shrinking" in (writer.health().problem or "")
    assert writer.health().state == "ok"
    assert reader.execute("SELECT count(*) FROM incidents").fetchone() == (1,)
    reader.close()
    writer.commit(facts(0, 1))
    assert writer.health().problem is None
    assert writer.rows("SELECT count(*) FROM incidents") == [(1,)]
    writer.close()


def test_an_outbox_starts_without_space_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from collector.outbox import folder as places

    def full(folder: Path) -> Path:
        raise OSError(28, "No space left on device")

    clock = Clock()
    with monkeypatch.context() as patched:
        patched.setattr(places, "make_database", full)
        writer = store(tmp_path, clock)
        assert writer.health().state == "memory"
        assert writer.cursors() == {}
        assert not writer.commit(Write(incidents=(incident(),)))
    clock.now += limits.RETRY_SECONDS
    assert writer.tick()
    assert writer.rows("SELECT count(*) FROM incidents") == [(1,)]
    assert writer.health().state == "ok"
    writer.close()
