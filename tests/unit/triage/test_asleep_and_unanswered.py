"""A log that ends asleep beside ``ss``: a suspicion of D3 and no more, as a stalled upload looks the same."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.contracts.report import Report
from analyzers.triage.run import Options, triage

ASLEEP = """\
0.00.000.300 I srv  llama_server: initializing ...
0.00.030.948 I srv  llama_server: model loaded
0.00.040.000 I srv  llama_server: listening on http://127.0.0.1:8080
0.01.043.870 I que    start_loop: entering sleeping state
0.01.043.900 I srv  handle_sleep: server is entering sleeping state
"""
WOKEN = ASLEEP + (
    "0.09.043.870 I que    start_loop: exiting sleeping state\n"
    "0.09.043.900 I srv  handle_sleep: server is exiting sleeping state\n"
    "0.09.050.000 I srv    load_model: loading model 'm'\n"
)
HEAD = "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
ROW = 'ESTAB 0 0 127.0.0.1:8080 127.0.0.1:51234 users:(("llama-server",pid=42,fd=9))\n'
QUIET = "\t cubic rto:200 bytes_received:312 segs_in:4 lastsnd:61000 lastrcv:60012 lastack:60012\n"
ANSWERED = "\t cubic bytes_sent:900 bytes_received:312 lastsnd:100 lastrcv:60012\n"


def read(folder: Path, log: str, info: str) -> Report:
    (folder / "server.log").write_text(log)
    (folder / "ss.txt").write_text(HEAD + ROW + info)
    with ExitStack() as stack:
        return triage([folder / "server.log", folder / "ss.txt"], Options(fast=True), stack).report


def test_asleep_with_an_unanswered_client_is_a_weak_strand_that_asks_for_the_servers_word(
    tmp_path: Path,
) -> None:
    report = read(tmp_path, ASLEEP, QUIET)
    verdict = report.verdict
    assert (verdict.class_, verdict.defect, verdict.confidence) == ("HANG-STRANDED", "D3", "weak")
    assert any("upload that stalls" in reason for reason in verdict.reasons)
    assert any("/props" in (gap.command or "") for gap in report.gaps)


@pytest.mark.parametrize(("log", "info"), [(WOKEN, QUIET), (ASLEEP, ANSWERED)], ids=["woken", "answered"])
def test_a_server_that_woke_or_a_client_that_was_answered_is_no_strand(
    tmp_path: Path, log: str, info: str
) -> None:
    assert read(tmp_path, log, info).verdict.class_ != "HANG-STRANDED"
