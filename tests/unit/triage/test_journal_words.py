"""What a journal's messages hold beside log lines: a printed trace; and texts whose lines end in CR alone."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from test_dead_together import ASLEEP, ASSERTION, AWAKE, entry, printed, two_units

from analyzers.contracts.report import Report
from analyzers.triage.run import Options, triage

TRACE = (
    "#0  0x00007f3eb14a3f16 in __syscall_cancel_arch () from /lib/libc.so.6",
    "#1  0x00007f3eb1222c81 in ggml_print_backtrace () from /app/libggml-base.so",
    "#2  0x00007f3eb1222d00 in ggml_abort () from /app/libggml-base.so",
    "#3  0x00007f3eb0222c81 in llama_decode () from /app/libllama.so",
    "#4  0x00007f3eb0222d00 in server_context_impl::update_slots() () from /app/libserver.so",
)


def told(folder: Path, text: str, name: str = "given.export") -> Report:
    path = folder / name
    path.write_bytes(text.encode())
    with ExitStack() as stack:
        return triage([path], Options(fast=True), stack).report


def frames(report: Report) -> set[str]:
    return {frame.function or "" for thread in report.threads for frame in thread.frames}


def life(*more: str) -> str:
    return "".join([*(printed(n / 10, 100, "a.service", line) for n, line in enumerate(AWAKE)), *more])


def by_gdb(at: float, line: str, pid: int = 107, unit: str = "a.service") -> str:
    return entry(at, line, _PID=str(pid), _COMM="gdb", _SYSTEMD_UNIT=unit, _TRANSPORT="stdout")


@pytest.mark.parametrize("debugger", [True, False])
def test_a_trace_in_a_journal_is_the_servers_own(tmp_path: Path, debugger: bool) -> None:
    """GIVEN the trace as gdb, a child with a PID of its own, printed it, or as the server did by itself."""
    said = [by_gdb(6, line) if debugger else printed(6, 100, "a.service", line) for line in TRACE]
    report = told(tmp_path, life(printed(5, 100, "a.service", ASSERTION), *said))
    assert report.verdict.class_ == "ABRT-ASSERT"
    assert any("llama_decode" in name for name in frames(report))
    # THEN it says where, which the text alone does not
    without = told(tmp_path, life(printed(5, 100, "a.service", ASSERTION)))
    assert not frames(without)


def test_a_trace_of_one_unit_is_not_the_other_ones(tmp_path: Path) -> None:
    ends = [printed(5, 100, "a.service", ASSERTION), *(by_gdb(6, line) for line in TRACE)]
    text = two_units(*ends, printed(7, 200, "b.service", ASSERTION))
    path = tmp_path / "given.export"
    path.write_text(text)
    found = {}
    for number in (1, 2):
        with ExitStack() as stack:
            report = triage([path], Options(fast=True, incident=number), stack).report
        found[report.process.pid] = bool(frames(report))
    assert found == {100: True, 200: False}


def test_a_trace_before_any_abort_is_a_clients_text(tmp_path: Path) -> None:
    said = [printed(4, 100, "a.service", line) for line in TRACE]
    assert not frames(told(tmp_path, life(*said, printed(5, 100, "a.service", ASSERTION))))
    assert not frames(told(tmp_path, life(*said)))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_read(tmp_path: Path, end: str) -> None:
    report = told(tmp_path, end.join((*ASLEEP, ASSERTION, "")), "a.log")
    assert report.verdict.class_ == "ABRT-ASSERT"
    assert any("sleeping" in item.text for item in report.timeline)


def test_the_input_itself_stays_as_it_is(tmp_path: Path) -> None:
    told(tmp_path, "\r".join((*ASLEEP, "")), "a.log")
    assert b"\n" not in (tmp_path / "a.log").read_bytes()


def test_a_record_of_the_same_pid_and_another_unit_is_named(tmp_path: Path) -> None:
    record = entry(
        6,
        "Process 100 (llama-server) dumped core.",
        MESSAGE_ID="fc2e22bc6ee647b6b90729ab34a250b1",
        _UID="0",
        _SYSTEMD_UNIT="systemd-coredump@1-2-0.service",
        COREDUMP_PID="100",
        COREDUMP_SIGNAL="11",
        COREDUMP_UNIT="b.service",
        COREDUMP_COMM="llama-server",
    )
    report = told(tmp_path, life(record))
    (gap,) = [gap for gap in report.gaps if gap.what == "whose death the record of PID 100 tells of"]
    assert "b.service" in gap.why
    assert report.verdict.class_ == "UNDETERMINED"
