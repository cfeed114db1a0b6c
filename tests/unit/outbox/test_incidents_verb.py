"""`llama-blackbox incidents`: without a hub, without an agent, at any width."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from outbox_parts import facts, incident, life, store

from analyzers.bundle.read import open_bundle
from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.cli.main import main
from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.outbox import DATABASE, SYSTEM_FOLDER, VERSION
from analyzers.contracts.report import Report, Tool, Verdict
from collector.incidents.find import default_folder
from collector.outbox.write import NewAttachment, Write, Yielded


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    """Three incidents; the first with a report, a bundle, a log and a private file."""
    report = Report(
        tool=Tool(version="1", catalogue="1"),
        verdict=Verdict(class_="SEGV-OTHER", summary="it died of a fault"),
    )
    sign = Evidence(
        id="s1",
        kind="kernel-line",
        source="kmsg",
        text="llama-server[42]: segfault\x1b[2J",
        trust=Trust.KERNEL,
        wall=1001.0,
        incarnation=life(),
    )
    bundle = tmp_path / "b.tar.zst"
    write_bundle(bundle, ManifestParts(created=1.0), {"journal.txt": b"a journal\n"}, [sign])
    record = incident(42).model_copy(update={"signs": [sign]})
    ident = record.id
    files = (
        NewAttachment(ident, "report.json", "report", report.to_json().encode()),
        NewAttachment(ident, "bundle.tar.zst", "bundle", bundle),
        NewAttachment(ident, "server.log", "log", b"main: server is listening\n"),
        NewAttachment(ident, "private.txt", "log", b"prompt", private=True),
    )
    writer = store(tmp_path)
    writer.commit(facts(0, 3))
    writer.commit(Write(incidents=(record, incident(43, state="closed"), incident(44)), attachments=files))
    hostile = incident(45, summary="x \x1b]0;owned\x07 \u202e " + "long " * 400)
    writer.commit(Write(incidents=(hostile,), yields=(Yielded("s", "c"),)))
    writer.close()
    return tmp_path / "outbox"


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    status = main([str(arg) for arg in args])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_the_list_fits_any_window_and_no_escape_reaches_it(
    outbox: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = run(capsys, "incidents", "--outbox", outbox)
    assert status == 0
    for pid in (42, 43, 44, 45):
        assert incident(pid).id[:8] in out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\u202e" not in out
    assert max(len(line) for line in out.splitlines()) <= columns
    assert run(capsys, "incidents", "list", "--outbox", outbox)[1] == out


def test_json_holds_all_of_it(outbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "incidents", "--outbox", outbox, "--json")
    told = json.loads(out)
    assert (status, told["schema"]) == (0, "llama-blackbox/incidents/1")
    assert [one["record"]["server"]["incarnation"]["pid"] for one in told["incidents"]] == [45, 44, 43, 42]
    assert len(told["incidents"][3]["attachments"]) == 4
    assert "\x1b" not in out


def test_one_is_shown_by_the_beginning_of_its_id(outbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "incidents", "--outbox", outbox, "show", incident(42).id[:6])
    assert status == 0
    assert incident(42).id in out
    assert "segfault" in out
    assert "stays on this host" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("ident", ["", "zzz", "\x1b[2J", "%", "f" * 500])
def test_an_id_that_is_none_is_one_line(outbox: Path, capsys: pytest.CaptureFixture[str], ident: str) -> None:
    status, out, err = run(capsys, "incidents", "show", ident, "--outbox", outbox)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "\x1b" not in err


def test_a_beginning_that_fits_several_names_them(
    outbox: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    records = tuple(incident(50).model_copy(update={"id": "abcdef" + end * 18}) for end in "01")
    writer = store(tmp_path)
    writer.commit(Write(incidents=records))
    writer.close()
    status, _, err = run(capsys, "incidents", "show", "abc", "--outbox", outbox)
    assert status == 2
    assert "2 begin so" in err
    assert run(capsys, "incidents", "show", "ABCDEF0", "--outbox", outbox)[0] == 0
    assert "abcdef00" in run(capsys, "incidents", "--outbox", outbox)[1]


def test_open_prints_the_attached_report_and_does_without(
    outbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, "incidents", "open", incident(42).id, "--outbox", outbox)
    assert status == 0
    assert "it died of a fault" in out
    status, out, _ = run(capsys, "incidents", "open", incident(43).id, "--outbox", outbox)
    assert status == 0
    assert "no report is attached" in out


def test_export_writes_a_bundle_that_triage_reads(
    outbox: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "x.tar.zst"
    status, _, err = run(capsys, "incidents", "export", incident(42).id, "-o", target, "--outbox", outbox)
    assert (status, err) == (0, "")
    with open_bundle(target) as bundle:
        names = {file.name for file in bundle.files}
        texts = [item.text for item in bundle.evidence]
        gaps = [gap.what for gap in bundle.gaps]
    assert names == {"journal.txt", "attachments/server.log", "context/report.json", "context/incident.json"}
    # THEN a fact that record and bundle both have is there once, and the ring's facts too
    assert len([text for text in texts if "segfault" in text]) == 1
    assert len([text for text in texts if text.startswith("a line")]) == 3
    assert gaps == ["private.txt"]
    assert run(capsys, "triage", target, "--json")[0] in (0, 3)
    # AND it is not replaced unasked
    again = ("incidents", "export", incident(42).id, "-o", target, "--outbox", outbox)
    assert run(capsys, *again)[0] == 2
    assert run(capsys, *again, "--force")[0] == 0


def test_no_outbox_damage_and_a_newer_version_are_one_line(
    outbox: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import sqlite3

    other = tmp_path / "other"
    other.mkdir()
    assert run(capsys, "incidents", "--outbox", other)[0] == 2
    (other / DATABASE).write_bytes(b"\xff" * 8192)
    status, _, err = run(capsys, "incidents", "--outbox", other)
    assert (status, len(err.splitlines())) == (2, 1)
    with sqlite3.connect(outbox / DATABASE) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.close()
    status, _, err = run(capsys, "incidents", "--outbox", outbox)
    assert (status, len(err.splitlines())) == (2, 1)
    assert "update llama-blackbox" in err


def test_where_the_outbox_is(tmp_path: Path) -> None:
    assert str(default_folder({}, 0)) == SYSTEM_FOLDER
    own = tmp_path / "llama-blackbox" / "outbox"
    own.mkdir(parents=True)
    (own / DATABASE).touch()
    assert default_folder({"XDG_STATE_HOME": str(tmp_path)}, 1000) == own
    home = tmp_path / ".local" / "state" / "llama-blackbox" / "outbox"
    home.mkdir(parents=True)
    (home / DATABASE).touch()
    assert default_folder({"HOME": str(tmp_path), "XDG_STATE_HOME": "relative"}, 1000) == home
