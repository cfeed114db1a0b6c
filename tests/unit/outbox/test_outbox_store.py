"""What is committed is there, once; what is read while it is written is whole."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest
from outbox_parts import BOOT, Clock, facts, incident, life, store

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.outbox import APPLICATION_ID, DATABASE, MIGRATIONS, TABLES, VERSION
from analyzers.contracts.outbox_read import open_reading
from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from collector.outbox.limits import FLUSH_SECONDS, MAX_EVIDENCE, MAX_RECORD
from collector.outbox.store import open_store
from collector.outbox.write import NewAttachment, Write, Yielded, yielded
from collector.sources.stream import Batch


def test_cursor_and_evidence_come_back(tmp_path: Path) -> None:
    # GIVEN an agent that stored a batch and ended
    first = store(tmp_path)
    assert first.commit(facts(0, 3))
    assert first.close()
    # WHEN another one starts THEN it goes on where the first ended, and the facts are those
    second = store(tmp_path)
    assert second.cursors() == {"journal": "c3"}
    with open_reading(tmp_path / "outbox") as outbox:
        assert [item.text for item in outbox.evidence_of(life())] == ["a line 0", "a line 1", "a line 2"]
    second.close()


def test_a_reader_sees_while_the_agent_writes(tmp_path: Path) -> None:
    writer = store(tmp_path)
    writer.commit(Write(incidents=(incident(),)))
    with open_reading(tmp_path / "outbox") as outbox:
        assert len(outbox.incidents()) == 1
        # WHEN the writer goes on THEN neither waits for the other, and the reader sees it
        assert writer.commit(Write(incidents=(incident(43),)))
        assert len(outbox.incidents()) == 2
        with pytest.raises(sqlite3.OperationalError):
            outbox._db.execute("DELETE FROM incidents")
    writer.close()


def test_the_same_incident_never_doubles_and_never_goes_back(tmp_path: Path) -> None:
    writer = store(tmp_path)
    for record in (
        incident(),
        incident(revision=3, summary="by signal 11"),
        incident(revision=2),
        incident(),
    ):
        assert writer.commit(Write(incidents=(record,)))
    with open_reading(tmp_path / "outbox") as outbox:
        (row,) = outbox.incidents()
    assert (row.revision, row.record.summary if row.record else "") == (3, "by signal 11")
    writer.close()


def test_an_agent_that_starts_again_goes_on_with_its_incidents(tmp_path: Path) -> None:
    writer = store(tmp_path)
    writer.commit(Write(incidents=(incident(revision=4),)))
    writer.close()
    again = store(tmp_path)
    assert again.open_incidents() == [incident(revision=4)]
    # WHEN it finds the same death anew THEN a record that says the same is the stored one, and one that says
    # more comes above it
    same = incident().model_copy(update={"revised_wall": 9999.0})
    assert again.revised(same) == incident(revision=4)
    assert again.revised(incident(summary="more is known")).revision == 5
    again.close()


def test_lines_wait_a_tick_and_incidents_do_not(tmp_path: Path) -> None:
    clock = Clock()
    writer = store(tmp_path, clock)
    # WHEN a hundred servers' lines come in within a second THEN they are one commit
    for number in range(100):
        writer.put(facts(number * 10, 10, stream=f"s{number}"))
        assert writer.tick()
    assert writer.health().commits == 0
    clock.now += FLUSH_SECONDS
    assert writer.tick()
    assert writer.health().commits == 1
    # WHEN an incident comes THEN it is written at once
    writer.put(Write(incidents=(incident(),)))
    assert writer.tick()
    assert writer.health().commits == 2
    assert writer.pending.empty
    writer.close()


def test_two_agents_cannot_share_one_outbox(tmp_path: Path) -> None:
    first = store(tmp_path)
    with pytest.raises(UserError, match="another agent uses this outbox") as refused:
        store(tmp_path)
    assert "\n" not in str(refused.value)
    first.close()
    store(tmp_path).close()


def test_the_folder_and_its_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "outbox"
    folder.mkdir(mode=0o755)
    old = os.umask(0)
    try:
        writer = store(tmp_path)
        note = NewAttachment(incident().id, "report.json", "report", b"{}")
        writer.commit(Write(incidents=(incident(),), attachments=(note,)))
    finally:
        os.umask(old)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    writer.close()


@pytest.mark.parametrize("name", ["", DATABASE, f"{DATABASE}-wal", "attachments"])
def test_links_are_refused(tmp_path: Path, name: str) -> None:
    # GIVEN a link where the outbox or a part of it should be
    target = tmp_path / "elsewhere"
    target.mkdir()
    folder = tmp_path / "outbox"
    if name:
        folder.mkdir(mode=0o700)
    (folder / name if name else folder).symlink_to(target)
    # WHEN the agent starts THEN it says so in one line and nothing was written there
    with pytest.raises(UserError):
        store(tmp_path)
    assert list(target.iterdir()) == []


def test_an_old_outbox_is_migrated_and_a_newer_one_refused(tmp_path: Path) -> None:
    # GIVEN an outbox of the first version
    folder = tmp_path / "outbox"
    folder.mkdir()
    with sqlite3.connect(folder / DATABASE) as old:
        old.executescript(MIGRATIONS[0])
        old.execute("INSERT INTO cursors VALUES ('journal', 'c7', 1.0)")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
    old.close()
    # WHEN it is opened THEN what it held is there and the new tables take rows
    writer = store(tmp_path)
    assert writer.cursors() == {"journal": "c7"}
    assert writer.rows("PRAGMA user_version") == [(VERSION,)]
    names = {row[0] for row in writer.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert set(TABLES) == names
    writer.close()
    # WHEN a newer program wrote it THEN it is refused, by writer and reader, and left alone
    with sqlite3.connect(folder / DATABASE) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.close()
    with pytest.raises(UserError, match="newer than this program"):
        store(tmp_path)
    with pytest.raises(UserError, match="newer than this program"), open_reading(folder):
        pass
    assert not list(folder.glob("*corrupt*"))


def test_hostile_facts_are_stored_as_far_as_they_can_be(tmp_path: Path) -> None:
    writer = store(tmp_path)
    odd = Evidence(
        id="x",
        kind="log-line",
        source="s",
        text="half \udc80 \x00 \x1b",
        trust=Trust.SERVER,
        wall=float("nan"),
    ).model_copy(update={"incarnation": life().model_copy(update={"pid": 1 << 80})})
    big = Evidence(id="y", kind="log-line", source="s", text="y" * (1 << 20), trust=Trust.SERVER)
    items = (odd, big.model_copy(update={"incarnation": life()}), big)
    assert writer.commit(Write(yields=(Yielded("s\udc80", "c\udc80", items),)))
    rows = writer.rows("SELECT size, json FROM evidence ORDER BY seq")
    assert len(rows) == 3
    assert max(row[0] for row in rows) <= MAX_EVIDENCE
    assert all(Evidence.model_validate_json(row[1]) for row in rows[1:])
    huge = incident().model_copy(update={"signs": [big] * 50, "summary": "z" * (1 << 20)})
    assert writer.commit(Write(incidents=(huge,)))
    assert writer.rows("SELECT size FROM incidents")[0][0] <= MAX_RECORD
    assert writer.incident(huge.id) is not None
    writer.close()


def test_a_streams_gaps_become_evidence(tmp_path: Path) -> None:
    batch = Batch(cursor="c1", gaps=(Gap(what="journal", why="1,000 messages were suppressed"),))
    writer = store(tmp_path)
    writer.commit(Write(yields=(yielded("journal", batch, 1000.0),)))
    ((text,),) = writer.rows("SELECT json FROM evidence")
    assert Evidence.model_validate_json(text).text == "journal: 1,000 messages were suppressed"
    writer.close()


def test_attachments_are_stored_once_by_content(tmp_path: Path) -> None:
    writer = store(tmp_path)
    source = tmp_path / "bundle"
    source.write_bytes(b"same")
    ident = incident().id
    new = (
        NewAttachment(ident, "a.txt", "log", b"same"),
        NewAttachment(ident, "b.txt", "log", source),
        NewAttachment(ident, "../c", "log", b"unfit name"),
        NewAttachment(ident, "gone", "log", tmp_path / "nothing"),
        NewAttachment(ident, "pipe", "log", Path("/dev/zero")),
    )
    assert writer.commit(Write(incidents=(incident(),), attachments=new))
    with open_reading(tmp_path / "outbox") as outbox:
        rows = outbox.attachments(ident)
        assert [row.name for row in rows] == ["a.txt", "b.txt"]
        assert {outbox.attachment_path(row) for row in rows} == {
            tmp_path / "outbox" / "attachments" / rows[0].sha256
        }
    assert dict(writer.health().dropped) == {"unfit_attachments": 1, "unreadable_attachments": 2}
    # WHEN the name gets another content THEN the file goes that nobody names any more, and only then
    writer.commit(Write(attachments=(NewAttachment(ident, "a.txt", "log", b"other"),)))
    assert len(list((tmp_path / "outbox" / "attachments").iterdir())) == 2
    writer.commit(Write(attachments=(NewAttachment(ident, "b.txt", "log", b"other"),)))
    assert len(list((tmp_path / "outbox" / "attachments").iterdir())) == 1
    writer.close()


def test_what_a_kill_left_is_swept(tmp_path: Path) -> None:
    store(tmp_path).close()
    place = tmp_path / "outbox" / "attachments"
    (place / ".part-1-1").write_bytes(b"half")
    (place / ("a" * 64)).write_bytes(b"never named")
    store(tmp_path).close()
    assert list(place.iterdir()) == []


def test_a_copy_in_a_read_only_folder_can_be_read(tmp_path: Path) -> None:
    writer = store(tmp_path)
    writer.commit(Write(incidents=(incident(),)))
    writer.close()
    folder = tmp_path / "outbox"
    assert not (folder / f"{DATABASE}-wal").exists()
    folder.chmod(0o500)
    try:
        with open_reading(folder) as outbox:
            assert [row.id for row in outbox.incidents()] == [incident().id]
    finally:
        folder.chmod(0o700)


def test_a_file_that_is_no_outbox_is_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "outbox"
    folder.mkdir()
    with sqlite3.connect(folder / DATABASE) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(UserError, match="no outbox of llama-blackbox"):
        open_store(folder)
    assert [path.name for path in folder.glob(f"{DATABASE}*")] == [DATABASE]


def test_the_servers_and_their_changes_are_there_for_status(tmp_path: Path) -> None:
    from analyzers.contracts.outbox import ServerRow, TransitionRow

    writer = store(tmp_path)
    key = f"{BOOT}-42-12.50"
    row = ServerRow(key, "asleep", 1000.0, 5.0, '{"model": "tiny"}')
    change = TransitionRow(key, "asleep", 1000.0, before="unloading", mono=5.0)
    writer.commit(Write(servers=(row,), transitions=(change,)))
    with open_reading(tmp_path / "outbox") as outbox:
        assert outbox.servers() == [row]
        assert outbox.transitions() == [change]
        writer.commit(Write(gone=(key,)))
        assert outbox.servers() == []
    writer.close()
