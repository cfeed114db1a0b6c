"""`triage … | head`: a reader that goes away changes what is printed, never the exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analyzers.errors import EXIT_OK, EXIT_UNDETERMINED

COMMAND = Path(sys.executable).with_name("llama-blackbox")
UNDECIDED = (
    "0.00.000.100 I srv  llama_server: initializing ...\n0.00.040.000 I srv  llama_server: model loaded\n"
)
PLANNED = UNDECIDED + (
    "0.01.000.000 I srv    operator(): exit command received, exiting...\n"
    "0.01.000.100 I srv    operator(): cleaning up before exit...\n"
)
FORMS = ([], ["--fast"], ["--json"], ["--markdown"], ["--html", "-"])


def left(log: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command with an output that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [COMMAND, "triage", log, *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize("words", FORMS, ids=" ".join)
@pytest.mark.parametrize(("text", "status"), [(UNDECIDED, EXIT_UNDETERMINED), (PLANNED, EXIT_OK)])
def test_the_status_is_the_verdicts(tmp_path: Path, words: list[str], text: str, status: int) -> None:
    log = tmp_path / "server.log"
    log.write_text(text)
    done = left(log, *words)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_page_is_written_though_nobody_reads_the_terminal(tmp_path: Path) -> None:
    log, page = tmp_path / "server.log", tmp_path / "page.html"
    log.write_text(UNDECIDED)
    done = left(log, "--html", str(page))
    assert done.returncode == EXIT_UNDETERMINED
    assert "<main>" in page.read_text()


def test_an_input_that_cannot_be_used_is_still_2(tmp_path: Path) -> None:
    assert left(tmp_path / "none").returncode == 2


def test_a_shell_pipe_to_head_sees_the_status(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(UNDECIDED)
    script = f'"{COMMAND}" triage "{log}" | head -n 1 >/dev/null; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script], check=False, timeout=60, capture_output=True)
    assert done.returncode == EXIT_UNDETERMINED


def test_a_page_for_standard_output_is_all_that_is_printed_there(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(PLANNED)
    done = subprocess.run(
        [COMMAND, "triage", log, "--html", "-"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == EXIT_OK
    assert done.stdout.lower().startswith("<!doctype")


@pytest.mark.parametrize("other", ["--json", "--markdown"])
def test_two_documents_for_standard_output_are_refused(tmp_path: Path, other: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(PLANNED)
    done = subprocess.run(
        [COMMAND, "triage", log, "--html", "-", other],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard output" in done.stderr
