"""A fault or a log of another day, by stamps that name no year; and their look-alikes of the same day."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, to_evidence
from analyzers.contracts.report import Process, Report
from analyzers.logs.calendar import DAY, calendar_distance, calendar_of, calendar_seconds
from analyzers.triage.group import group
from analyzers.triage.material import CoreWork, Material, numbering
from analyzers.triage.readers.reading import text_materials
from analyzers.triage.run import Options, triage
from analyzers.triage.sniff import look

SERVER = (
    "0.00.000.300 I srv          init: initializing ...",
    "0.00.030.948 I srv          init: model loaded",
    "0.00.030.949 I srv          init: listening on http://127.0.0.1:8080",
    "0.01.043.870 I que    start_loop: entering sleeping state",
    "0.05.043.870 I que    start_loop: exiting sleeping state",
    "0.05.053.870 I srv          init: model loaded",
)
FAULT = "llama-server[103]: segfault at 172 ip 7f0000001000 sp 7ffe error 4"
FAULT += " in libllama.so[1000,7f0000000000+3000]"


def short(day: str = "Nov 30", pid: int = 100) -> str:
    return "".join(f"{day} 10:00:{n:02d} host llama-server[{pid}]: {line}\n" for n, line in enumerate(SERVER))


def iso() -> str:
    return "".join(f"2026-11-30T10:00:{n:02d}.000000Z {line}\n" for n, line in enumerate(SERVER))


def kernel(stamp: str) -> str:
    return f"{stamp} host kernel: {FAULT}\n"


def told(folder: Path, *texts: str) -> Report:
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"{number}.txt")
        paths[-1].write_text(text)
    with ExitStack() as stack:
        return triage(paths, Options(fast=True), stack).report


@pytest.mark.parametrize(
    ("stamp", "joined"),
    [
        ("Nov 29 09:00:00", False),
        ("Nov 30 10:00:06", True),
        ("30. Nov. 10:00:06", True),
        ("29. Nov. 09:00:00", False),
        ("Dez 24 10:00:06", True),  # a log that fell silent for weeks, then died
        ("11月 29 09:00:00", False),
        ("Xyz 29 09:00:00", True),  # a month of a language that is not known tells nothing
    ],
)
@pytest.mark.parametrize("log", [short, iso])
def test_a_fault_of_the_day_before_is_not_the_logs(
    tmp_path: Path, log: object, stamp: str, joined: bool
) -> None:
    report = told(tmp_path, log(), kernel(stamp))  # type: ignore[operator]
    assert (report.verdict.class_, report.verdict.confidence) == (
        ("SEGV-UAF-SLEEP", "weak") if joined else ("UNDETERMINED", "undetermined")
    )
    assert any("other faults" in gap.what for gap in report.gaps) is not joined


@pytest.mark.parametrize(("stamp", "joined"), [("Nov 29 10:00:00", False), ("Nov 30 10:00:06", True)])
def test_nor_where_one_text_holds_both(tmp_path: Path, stamp: str, joined: bool) -> None:
    texts = [kernel(stamp), short()] if not joined else [short(), kernel(stamp)]
    report = told(tmp_path, "".join(texts))
    assert (report.verdict.class_ == "SEGV-UAF-SLEEP") is joined
    assert any("before this life began" in gap.why for gap in report.gaps) is not joined


def test_hours_that_a_zone_explains_exclude_nothing(tmp_path: Path) -> None:
    """GIVEN a log in UTC and a kernel's text in the host's own zone, ten hours behind."""
    assert told(tmp_path, iso(), kernel("Nov 30 00:00:06")).verdict.class_ == "SEGV-UAF-SLEEP"


def core(pid: int = 100) -> Material:
    fact = CoreFact(signal=11, pid=pid, crashed_tid=103, instruction_pointer=0x7F0000001000, server=True)
    item = to_evidence(fact, id="core", source="core", text="t", trust=Trust.KERNEL)
    own = item.model_copy(update={"incarnation": Incarnation(pid=pid)})
    work = CoreWork(Path("core"), None)
    return Material((own,), process=Process(pid=pid), anchor=True, tids=frozenset({pid, 103}), core=work)


def with_core(folder: Path, *texts: str) -> tuple[list[Evidence], str]:
    """The log lines that count beside a core of PID 100, and all gaps."""
    parts = [core()]
    for number, text in enumerate(texts):
        path = folder / f"{number}.txt"
        path.write_text(text)
        with ExitStack() as stack:
            parts += text_materials(path, path.name, look(path), numbering(), stack)
    (one,), gaps = group(parts)
    lines = [item for item in one.evidence if item.kind == "log"]
    return lines, "\n".join(f"{gap.what}: {gap.why}" for gap in (*one.gaps, *gaps))


def test_a_journal_of_another_day_with_the_cores_pid_is_another_process(tmp_path: Path) -> None:
    lines, gaps = with_core(tmp_path, short("Nov 30"), kernel("Nov 29 09:00:00"))
    assert lines == []
    assert "it began on a day after the process in the core had died" in gaps


def test_a_journal_that_nothing_dates_against_the_core_is_tied_by_no_pid(tmp_path: Path) -> None:
    lines, gaps = with_core(tmp_path, short())
    assert {item.incarnation.pid for item in lines} == {None}
    assert "whether 0.txt is of the same use of PID 100" in gaps


def test_one_of_the_same_day_is_tied_by_its_pid(tmp_path: Path) -> None:
    lines, gaps = with_core(tmp_path, short(), kernel("Nov 30 10:00:06"))
    assert {item.incarnation.pid for item in lines} == {100}
    assert "same use of PID" not in gaps


@pytest.mark.parametrize(
    "stamp",
    [
        "Nov 30 10:00:05",
        "30 nov. 10:00:05",
        "11月 30 10:00:05",
        "Mon Nov 30 10:00:05 2026",
        "Nov  30 10:00:05.25",
    ],
)
def test_days_are_read_in_the_forms_that_hosts_print(stamp: str) -> None:
    assert calendar_seconds(stamp) == calendar_of(1796032805.0)


@pytest.mark.parametrize(
    "stamp", ["Nov 32 10:00:05", "Nov 30 25:00:05", "13月 1 10:00:05", "hello", "Foo 1 10:00:00"]
)
def test_what_is_no_day_is_none(stamp: str) -> None:
    assert calendar_seconds(stamp) is None


def test_the_last_day_of_a_year_is_the_day_before_the_first() -> None:
    new_year, eve = calendar_seconds("Jan  1 00:00:00"), calendar_seconds("Dec 31 00:00:00")
    assert new_year is not None
    assert eve is not None
    assert calendar_distance(new_year, eve) == DAY
    assert calendar_of(float("inf")) is None
