"""Output that cannot be written, inputs that change, come twice or in crowds."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from bad_material import ASLEEP, FAULT, REQUEST, START, put
from bad_run import PATIENCE, UNDECIDED, command, judged, quick, refused, spawn, triage, untouched

import analyzers.triage.run as run_module
from analyzers.triage.inputs import Source


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return put(tmp_path / "server.log", START + REQUEST + ASLEEP)


@pytest.mark.parametrize("place", ["/nonexistent/page.html", "/dev/full", "."])
def test_a_page_that_cannot_be_written_is_one_line_after_the_verdict(log: Path, place: str) -> None:
    outcome = triage("--fast", "--html", place, log)
    assert outcome.status == 2
    assert "UNDETERMINED" in outcome.out
    assert outcome.err.count("\n") == 1
    assert place in outcome.err
    assert "--html" in outcome.err


def test_a_page_never_replaces_an_input(tmp_path: Path, log: Path) -> None:
    bundle, exe = tmp_path / "b", put(tmp_path / "exe", b"\x7fELF")
    put(bundle / "manifest.json", '{"schema":"llama-blackbox/bundle/1","files":[]}')
    (tmp_path / "link").symlink_to(log)
    with untouched(log, bundle, exe):
        for target, given in ((log, [log]), (tmp_path / "link", [log]), (bundle / "page.html", [bundle])):
            refused(triage("--html", target, *given), "never changed")
        refused(triage("--html", exe, "--exe", exe, log), "never changed")


@pytest.mark.parametrize("form", ["--json", "--markdown", "--fast"])
def test_a_full_disk_behind_standard_output_is_one_line(log: Path, form: str) -> None:
    with open("/dev/full", "wb") as full:
        outcome = spawn(form, log, stdout=full)
    refused(outcome, "standard output", "cannot be written")


@pytest.mark.parametrize("form", ["--json", "--fast"])
def test_a_closed_standard_output_costs_only_the_print(log: Path, form: str) -> None:
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command(), "triage", form, str(log)],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (UNDECIDED, b"")


def test_a_reader_that_leaves_is_no_fault(log: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as pipe:
        outcome = spawn("--json", log, stdout=pipe)
    # THEN no complaint, and the status the verdict has for a reader that stays
    assert (outcome.status, outcome.err) == (UNDECIDED, "")


def test_a_narrow_terminal_and_an_ascii_one_get_a_report(log: Path) -> None:
    narrow = {**os.environ, "COLUMNS": "1", "TERM": "dumb", "PYTHONIOENCODING": "ascii"}
    for form in (["--fast"], ["--json", "--fast"], ["--markdown", "--fast"]):
        outcome = spawn(*form, log, env=narrow)
        assert outcome.status == UNDECIDED
        assert outcome.out.isascii()
    assert judged(spawn("--json", "--fast", log, env=narrow))


def test_two_inputs_of_one_name_keep_their_own_hash_and_name(tmp_path: Path) -> None:
    one = put(tmp_path / "a" / "server.log", START)
    two = put(tmp_path / "b" / "server.log", FAULT)
    with untouched(one, two):
        report = judged(triage("--json", one, two))
    assert [item["name"] for item in report["inputs"]] == ["a/server.log", "b/server.log"]
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, two)]
    assert [item["sha256"] for item in report["inputs"]] == hashes


def test_the_same_input_twice_counts_once(tmp_path: Path, log: Path) -> None:
    (tmp_path / "link").symlink_to(log)
    once, twice = quick(log).report, quick(log, log, tmp_path / "link").report
    assert once == twice


def test_sixty_inputs_at_once(tmp_path: Path) -> None:
    logs = [put(tmp_path / str(number) / "server.log", START + REQUEST) for number in range(58)]
    kernel, rubbish = put(tmp_path / "kern.log", FAULT), put(tmp_path / "notes.txt", "nothing\n")
    with untouched(*logs, kernel, rubbish):
        report = judged(quick(*logs, kernel, rubbish))
    assert len(report["inputs"]) == 60
    assert len({item["name"] for item in report["inputs"]}) == 60


def test_one_unusable_input_among_many_is_named(tmp_path: Path, log: Path) -> None:
    bad = put(tmp_path / "photo.png", b"\x89PNG\r\n\x1a\n")
    refused(quick(log, bad), str(bad), "a picture")


def _while_reading(monkeypatch: pytest.MonkeyPatch, act: object) -> None:
    """Have ``act`` happen after an input was looked at and before it is read."""
    given = run_module.given

    def looked(paths: Sequence[Path], stack: ExitStack) -> list[Source]:
        sources = given(paths, stack)
        act(sources[0].path)  # type: ignore[operator]
        return sources

    monkeypatch.setattr(run_module, "given", looked)


def test_an_input_that_vanishes_while_it_is_read_is_one_line(
    monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    _while_reading(monkeypatch, Path.unlink)
    refused(quick(log), "server.log", "cannot be read")


def test_an_input_that_becomes_a_folder_is_one_line(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def replace(path: Path) -> None:
        path.unlink()
        path.mkdir()

    _while_reading(monkeypatch, replace)
    refused(quick(log), "server.log", "cannot be read")


def test_an_input_that_grows_is_a_gap(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    _while_reading(monkeypatch, lambda path: path.write_bytes(path.read_bytes() * 2))
    judged(triage("--json", log), "agreement of server.log with this report: it changed")


def test_an_input_that_vanishes_after_the_verdict_is_a_gap(
    monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    finish = run_module.with_hashes

    def gone(listed: object, inputs: object) -> object:
        log.unlink()
        return finish(listed, inputs)  # type: ignore[arg-type]

    monkeypatch.setattr(run_module, "with_hashes", gone)
    judged(triage("--json", log), "agreement of server.log with this report: it is gone")
