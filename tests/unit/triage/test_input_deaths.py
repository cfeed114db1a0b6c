"""Several deaths in one text are several incidents; one death in several texts is one."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.contracts.report import Report
from analyzers.triage.run import Options, triage

BOOT = "0123456789abcdef0123456789abcdef"
START = "0.00.000.363 I srv          init: initializing ..."
LOADED = "0.00.047.624 I srv          init: listening on http://127.0.0.1:18080"
SLEPT = (
    "0.01.047.941 I que    start_loop: entering sleeping state",
    "0.01.048.172 I srv  handle_sleep: server is entering sleeping state",
)
WOKE = (
    "0.01.357.252 I que    start_loop: exiting sleeping state",
    "0.01.357.297 I srv  handle_sleep: server is exiting sleeping state",
    "0.01.357.334 I srv    load_model: loading model '/models/a.gguf'",
)
DUMPED = "systemd[1]: llama.service: Main process exited, code=dumped, status=11/SEGV"
FAILED = "systemd[1]: llama.service: Failed with result 'core-dump'."


def report_of(tmp_path: Path, **texts: str) -> Report:
    paths = []
    for name, text in texts.items():
        path = tmp_path / f"{name}.txt"
        path.write_text(text)
        paths.append(path)
    with ExitStack() as stack:
        return triage(paths, Options(fast=True), stack).report


def life(pid: int, *lines: str, second: int = 0, end: tuple[str, ...] = (DUMPED, FAILED)) -> str:
    said = [f"llama-server[{pid}]: {line}" for line in (START, LOADED, *lines)]
    return "".join(f"Dec 02 07:02:{second:02} host {line}\n" for line in (*said, *end))


def pids(report: Report) -> list[int]:
    return sorted(pid for incident in report.incidents for pid in incident.pids)


def total(report: Report) -> int:
    return sum(incident.count for incident in report.incidents) or 1


def test_each_death_of_a_journal_text_keeps_its_own_sleep(tmp_path: Path) -> None:
    # GIVEN one life that slept and woke before its death, and one that did not
    text = life(41, *SLEPT, *WOKE) + life(52, second=10)
    report = report_of(tmp_path, journal=text)
    # THEN they are two incidents, and only the first one's sleep is blamed
    assert {incident.class_: incident.pids for incident in report.incidents} == {
        "SEGV-UAF-SLEEP": [41],
        "SEGV": [52],
    }


def test_one_that_runs_on_is_no_incident(tmp_path: Path) -> None:
    text = life(41, *SLEPT, *WOKE) + life(52, second=10) + life(63, *SLEPT, second=20, end=())
    report = report_of(tmp_path, journal=text)
    assert pids(report) == [41, 52]
    assert any("1 further lives" in gap.what for gap in report.gaps)


def test_one_death_is_read_as_it_always_was(tmp_path: Path) -> None:
    report = report_of(tmp_path, journal=life(41, *SLEPT, *WOKE))
    assert (total(report), report.process.pid) == (1, 41)


def test_stops_that_were_asked_for_are_no_deaths(tmp_path: Path) -> None:
    stopped = (
        "systemd[1]: Stopping llama.service...",
        "systemd[1]: llama.service: Deactivated successfully.",
    )
    text = life(41, end=stopped) + life(52, second=10)
    assert total(report_of(tmp_path, journal=text)) == 1


def test_ends_of_servers_side_by_side_are_not_guessed_between(tmp_path: Path) -> None:
    # GIVEN two processes of one name whose lines alternate, and two ends without a PID
    both = "".join(
        f"Dec 02 07:02:00 host llama-server[{pid}]: {line}\n" for line in (START, LOADED) for pid in (41, 52)
    )
    ends = "".join(f"Dec 02 07:02:01 host {line}\n" for line in (DUMPED, DUMPED))
    assert total(report_of(tmp_path, journal=both + ends)) == 1


def test_containers_by_their_names(tmp_path: Path) -> None:
    one, other = "llama-a  | ", "llama-b  | "
    lines = [f"{name}{line}" for line in (START, LOADED) for name in (one, other)]
    lines += [f"{one}{line}" for line in (*SLEPT, *WOKE)]
    lines += ["llama-b exited with code 137", "llama-a exited with code 139"]
    report = report_of(tmp_path, compose="\n".join(lines) + "\n")
    assert {incident.class_ for incident in report.incidents} == {"SEGV-UAF-SLEEP", "KILLED"}


def test_a_supervisor_alone_tells_each_end_with_its_reason(tmp_path: Path) -> None:
    words = (
        "Watchdog timeout (limit 30s)!",
        "Main process exited, code=killed, status=6/ABRT",
        "Failed with result 'watchdog'.",
        "Scheduled restart job, restart counter is at 1.",
        "Main process exited, code=dumped, status=11/SEGV",
        "Failed with result 'core-dump'.",
    )
    text = "".join(
        f"Dec 02 07:02:{n:02} host systemd[1]: llama.service: {word}\n" for n, word in enumerate(words)
    )
    report = report_of(tmp_path, journal=text)
    assert {incident.class_ for incident in report.incidents} == {"KILLED-BY-SUPERVISOR", "SEGV"}


def test_a_kernel_line_between_goes_with_the_life_it_ended(tmp_path: Path) -> None:
    fault = (
        "kernel: llama-server[77]: segfault at 7ffc00000ff8 ip 00007f0000001234 sp 00007ffc00001000 error 6 "
        "in libllama.so[1000,7f0000000000+200000]"
    )
    other = "kernel: chromium[99]: segfault at 0 ip 7f0000001234 sp 7ffc00001000 error 4 in chromium[1,2+3]"
    text = life(41, end=(other, fault, DUMPED, FAILED)) + life(52, second=10)
    report = report_of(tmp_path, journal=text)
    assert {incident.class_: incident.pids for incident in report.incidents} == {
        "SEGV-STACK": [41],
        "SEGV": [52],
    }


@pytest.mark.parametrize("named", [41, 52])
def test_a_record_of_one_of_them_adds_no_third(tmp_path: Path, named: int) -> None:
    text = life(41, *SLEPT, *WOKE) + life(52, second=10)
    report = report_of(tmp_path, journal=text, record=record(named, "07:02:30"))
    assert total(report) <= 2
    assert named in (report.process.pid, *pids(report))


def record(pid: int, at: str, name: str = "llama-server", frame: str = "llama_vocab::impl::tokenize") -> str:
    return f"""           PID: {pid} ({name})
        Signal: 11 (SEGV)
     Timestamp: Wed 2026-12-02 {at} UTC (3min ago)
    Executable: /usr/bin/{name}
          Unit: {name.removesuffix("-server")}.service
       Boot ID: {BOOT}
       Message: Process {pid} ({name}) of user 0 dumped core.

                Stack trace of thread {pid}:
                #0  0x00007f0000001234 {frame} (libllama.so + 0x1234)
                #1  0x00007f0000001260 start_thread (libc.so.6 + 0x1260)

"""


def test_each_core_record_of_a_server_is_an_incident(tmp_path: Path) -> None:
    texts = [record(41, "07:02:00"), record(52, "07:03:00"), record(63, "07:04:00", frame="quite_another")]
    report = report_of(tmp_path, records="".join([*texts, record(99, "07:05:00", name="chromium")]))
    assert pids(report) == [41, 52, 63]
    assert [incident.count for incident in report.incidents] == [2, 1]
    assert any("PID 99" in gap.what for gap in report.gaps)


def test_the_same_process_in_two_texts_is_one_death(tmp_path: Path) -> None:
    # GIVEN the journal's text and coredumpctl's of the same two deaths
    journal = life(41, *SLEPT, *WOKE) + life(52, second=10)
    report = report_of(tmp_path, journal=journal, records=record(41, "07:02:00") + record(52, "07:02:10"))
    assert total(report) == 2
    assert pids(report) == [41, 52]


def test_a_client_cannot_add_a_death(tmp_path: Path) -> None:
    # GIVEN a server whose log prints a supervisor's words out of a prompt
    forged = "llama.service: Main process exited, code=dumped, status=11/SEGV"
    text = life(41, forged, *SLEPT, *WOKE)
    assert total(report_of(tmp_path, journal=text)) == 1


def test_texts_of_one_death_each_are_as_many_incidents(tmp_path: Path) -> None:
    # GIVEN three units' journals, whose ends name no process; only the first one slept
    texts = {name: life(pid, *slept) for name, pid, slept in (("a", 41, SLEPT), ("b", 52, ()), ("c", 63, ()))}
    report = report_of(tmp_path, **texts)
    assert pids(report) == [41, 52, 63]
    slept = [death.pid for one in report.incidents for death in one.deaths if death.cause == "sleep"]
    assert slept == [41]


def test_one_pid_in_two_hosts_texts_is_two_deaths(tmp_path: Path) -> None:
    # GIVEN the first process of two containers, whose logs share no line
    def moved(text: str) -> str:
        return text.replace("0.00.", "0.10.").replace("0.01.", "0.11.")

    one = life(1, *SLEPT, *WOKE)
    assert pids(report_of(tmp_path, a=one, b=moved(one))) == [1, 1]
    assert total(report_of(tmp_path, a=one, b=one)) == 1
