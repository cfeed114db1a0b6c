"""Real journal files, written by systemd's own code: read, damaged, rotated, and a folder of them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from analyzers.cli.main import main

WRITER = next((path for path in ("/lib/systemd/systemd-journal-remote",) if os.path.exists(path)), None)
MISSING = [
    name
    for name, there in (
        ("systemd-python (deploy/setup.sh says how)", importlib.util.find_spec("systemd") is not None),
        ("systemd-journal-remote (a Debian package)", WRITER is not None),
    )
    if not there
]
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(MISSING), reason=f"RAW JOURNALS ARE NOT TESTED: missing {', '.join(MISSING)}"),
]
BOOT = "0123456789abcdef0123456789abcdef"
START = 1_796_187_355_000_000  # microseconds


def entry(number: int, **fields: str) -> str:
    head = (
        f"__CURSOR=s=00000000000000000000000000000001;i={number}\n"
        f"__REALTIME_TIMESTAMP={START + number * 1_000_000}\n"
        f"__MONOTONIC_TIMESTAMP={100_000_000 + number * 1_000_000}\n_BOOT_ID={BOOT}\n"
    )
    return head + "".join(f"{name}={value}\n" for name, value in fields.items()) + "\n"


def server(number: int, line: str) -> str:
    own = {"_PID": "4242", "_SYSTEMD_UNIT": "llama.service", "_COMM": "llama-server", "_TRANSPORT": "stdout"}
    return entry(number, MESSAGE=line, **own)


FAULT = "llama-server[4242]: segfault at 172 ip 0000000000000172 sp 00007ffe00000000 error 14"
CRASH = [
    server(1, "0.00.004.097 I srv          init: initializing ..."),
    server(2, "2.00.004.097 I que    start_loop: entering sleeping state"),
    entry(3, MESSAGE="a line of another program", _PID="9", _COMM="x", _TRANSPORT="stdout"),
    entry(4, MESSAGE=FAULT, _TRANSPORT="kernel"),
    entry(
        5,
        MESSAGE="Process 4242 (llama-server) of user 0 dumped core.",
        MESSAGE_ID="fc2e22bc6ee647b6b90729ab34a250b1",
        _UID="0",
        _TRANSPORT="journal",
        _SYSTEMD_UNIT="systemd-coredump@1-2-0.service",
        COREDUMP_PID="4242",
        COREDUMP_SIGNAL="11",
        COREDUMP_COMM="llama-server",
        COREDUMP_UNIT="llama.service",
        COREDUMP_ENVIRON="API_KEY=sk-secret",
    ),
]


def journal(path: Path, entries: list[str]) -> Path:
    assert WRITER is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".export")
    source.write_text("".join(entries))
    subprocess.run([WRITER, f"--output={path}", str(source)], check=True, capture_output=True)
    source.unlink()
    return path


def triage(capsys: pytest.CaptureFixture[str], *paths: Path) -> tuple[int, dict, str]:
    status = main(["triage", "--json", "--fast", *map(str, paths)])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else {}, captured.err


def texts(report: dict) -> str:
    return " ".join(item["text"] for item in report["verdict"]["evidence"])


def test_a_raw_journal_is_read_with_the_journals_own_trust(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = journal(tmp_path / "system.journal", CRASH)
    before = (path.stat().st_mtime_ns, path.read_bytes())
    status, report, _ = triage(capsys, path)
    assert (status, [item["kind"] for item in report["inputs"]]) == (0, ["journal"])
    assert (report["process"]["signal"], report["process"]["pid"]) == ("SIGSEGV", 4242)
    trusts = {item["text"][:11]: item["trust"] for item in report["verdict"]["evidence"]}
    assert trusts["core record"] == "supervisor-set"
    assert trusts["llama-serve"] == "kernel-set"
    assert "sk-secret" not in json.dumps(report)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


def test_the_rotated_files_of_a_folder_are_one_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "journal" / "machine"
    journal(place / "system@1.journal", CRASH[:2])
    journal(place / "system.journal", CRASH[2:])
    _, report, _ = triage(capsys, tmp_path / "journal")
    assert [item["kind"] for item in report["inputs"]] == ["folder", "journal"]
    assert "entering sleeping state" in texts(report)
    assert "core record" in texts(report)


def test_a_damaged_file_costs_only_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "journal"
    journal(place / "good.journal", CRASH)
    bad = place / "bad.journal"
    shutil.copy(place / "good.journal", bad)
    with bad.open("r+b") as file:
        file.truncate(100)
    status, report, _ = triage(capsys, place)
    assert status == 0
    assert any("bad.journal" in gap["why"] for gap in report["gaps"])


def test_a_journal_cut_in_the_middle_gives_a_report_or_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = journal(tmp_path / "cut.journal", CRASH)
    whole = path.read_bytes()
    for keep in (9, 300, 70_000, 4 << 20):
        path.write_bytes(whole[:keep])
        status, report, err = triage(capsys, path)
        assert status in (0, 2, 3)
        assert report or err.count("\n") == 1
    path.write_bytes(whole[:300_000] + b"\xff" * 200_000 + whole[500_000:])
    status, report, err = triage(capsys, path)
    assert status in (0, 2, 3)


def test_a_journal_of_others_is_undecided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, report, _ = triage(capsys, journal(tmp_path / "a.journal", CRASH[2:3]))
    assert status == 3
    assert any(gap["what"] == "anything telling in the journal" for gap in report["gaps"])


def test_ten_thousand_entries_of_others_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dull = [
        entry(n, MESSAGE=f"line {n}", _PID="9", _COMM="x", _TRANSPORT="stdout") for n in range(10, 10_010)
    ]
    status, report, _ = triage(capsys, journal(tmp_path / "big.journal", CRASH + dull))
    assert status == 0
    assert report["process"]["signal"] == "SIGSEGV"
