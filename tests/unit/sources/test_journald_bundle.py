"""What of a journal goes into the bundle for triage, without a journal: selection, format and bounds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from analyzers.bundle.read import open_bundle
from analyzers.cli import journals
from analyzers.errors import UserError
from analyzers.logs.entries import export_entries
from collector.sources import journald
from collector.sources.journald import export_entry, is_telling, write_journal_bundle

SLEEP = b"2.00.004.097 I que    start_loop: entering sleeping state"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"MESSAGE": SLEEP, "_PID": b"42"}, True),
        ({"MESSAGE": b"segfault", "_TRANSPORT": b"kernel"}, True),
        ({"MESSAGE": b"anything", "_PID": b"1"}, True),
        ({"COREDUMP_PID": b"42"}, True),
        ({"MESSAGE": b"a line of another program", "_PID": b"42"}, False),
        ({"_PID": b"42"}, False),
        ({"MESSAGE": [SLEEP, b"x"]}, True),
    ],
)
def test_what_triage_would_look_at_is_told(entry: dict[str, object], told: bool) -> None:
    assert is_telling(entry) is told


def test_an_entry_survives_the_export_format_and_secrets_stay_out() -> None:
    entry = {
        "MESSAGE": b"first\nsecond\x00",
        "_PID": b"42",
        "COREDUMP_ENVIRON": b"KEY=secret",
        "COREDUMP": b"\x7fELF",
        "COREDUMP_PROC_MAPS": b"x",
        "COREDUMP_CMDLINE": b"--api-key secret",
    }
    data = export_entry(entry)
    (read,) = export_entries(io.BytesIO(data), "x")
    assert (read.fields["MESSAGE"], read.fields["_PID"]) == (b"first\nsecond\x00", b"42")
    assert b"secret" not in data
    assert b"ELF" not in data


def reading(monkeypatch: pytest.MonkeyPatch, entries: list[dict[str, bytes]], fail: bool = False) -> None:
    def all_of(files: object, written: journald.Written):
        yield from entries
        if fail:
            written.damaged.append("after 2 entries: Bad message")

    monkeypatch.setattr(journald, "_opens", lambda path, written: True)
    monkeypatch.setattr(journald, "journal_entries", all_of)


def entry(number: int) -> dict[str, bytes]:
    return {"__REALTIME_TIMESTAMP": str(number).encode(), "MESSAGE": SLEEP, "_PID": b"42"}


def test_the_newest_entries_are_kept_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading(monkeypatch, [entry(number) for number in range(100)])
    parts = journald._Parts
    monkeypatch.setattr(journald, "_Parts", lambda folder: parts(folder, size=500, kept=2))
    write_journal_bundle([Path("a.journal")], tmp_path)
    with open_bundle(tmp_path) as bundle:
        assert [file.name for file in bundle.files] == ["journal.export"]
        assert any("newest" in gap.why for gap in bundle.gaps)
    kept = [
        e.number_of("__REALTIME_TIMESTAMP")
        for e in export_entries((tmp_path / "journal.export").open("rb"), "x")
    ]
    assert kept == sorted(kept)
    assert kept[-1] == 99
    assert len(kept) < 20


def test_damage_and_silence_are_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading(monkeypatch, [{"MESSAGE": b"dull"}] * 2, fail=True)
    write_journal_bundle([Path("a.journal")], tmp_path)
    with open_bundle(tmp_path) as bundle:
        told = [gap.what for gap in bundle.gaps]
    assert told == ["part of the journal", "anything telling in the journal"]


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading(monkeypatch, [entry(1)])
    tmp_path.joinpath("part-000000").mkdir()
    with pytest.raises(UserError, match="cannot be kept"):
        write_journal_bundle([Path("a.journal")], tmp_path)


def test_the_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = journals.importlib.util.find_spec
    monkeypatch.setattr(
        journals.importlib.util, "find_spec", lambda name: None if name == "systemd" else real(name)
    )
    with pytest.raises(UserError, match=r"systemd is not installed.*pip install .*journalctl --file"):
        journals.journals_into([tmp_path / "x.journal"], tmp_path)
