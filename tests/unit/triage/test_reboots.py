"""A life that ended with its machine: another boot follows it, and nothing tells of its end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.contracts.report import Report
from analyzers.triage.run import Options, triage

OLD, NEW = "a" * 32, "b" * 32
LIFE = (
    "0.00.000.300 I srv  llama_server: initializing ...",
    "0.00.030.948 I srv  llama_server: model loaded",
    "0.00.040.000 I srv  llama_server: listening on http://127.0.0.1:9001",
)
STOPPED = "0.05.040.000 I srv  operator(): operator(): cleaning up before exit..."


def read(folder: Path, text: str) -> Report:
    (folder / "journal.txt").write_text(text)
    with ExitStack() as stack:
        return triage([folder / "journal.txt"], Options(fast=True), stack).report


def short(pid: int, *more: str) -> str:
    return "".join(f"Dec 02 07:00:00 host llama-server[{pid}]: {line}\n" for line in (*LIFE, *more))


def systemd(line: str) -> str:
    return f"Dec 02 07:00:09 host systemd[1]: {line}\n"


def exported(boot: str, pid: int, second: int, *lines: str) -> str:
    fields = {
        "_BOOT_ID": boot,
        "_PID": pid,
        "_COMM": "llama-server",
        "_TRANSPORT": "stdout",
        "_SYSTEMD_UNIT": "llama.service",
    }
    told = "".join(f"{key}={value}\n" for key, value in fields.items())
    stamp = 1_764_000_000 + second
    return "".join(
        f"__REALTIME_TIMESTAMP={stamp}000000\n__MONOTONIC_TIMESTAMP={second}000000\n{told}MESSAGE={line}\n\n"
        for line in lines
    )


@pytest.mark.parametrize("mark", [f"-- Boot {NEW} --\n", "-- Reboot --\n"])
def test_a_separator_of_journalctl_ends_the_life_before_it(tmp_path: Path, mark: str) -> None:
    report = read(tmp_path, short(41) + mark + short(52))
    assert (report.verdict.class_, report.verdict.cause) == ("HOST-FAILURE", "host")
    assert report.process.pid == 41
    assert report.verdict.confidence == "weak"  # the boot in which the server ran is not named


def test_two_boot_ids_of_an_export_name_both_boots(tmp_path: Path) -> None:
    report = read(tmp_path, exported(OLD, 41, 10, *LIFE) + exported(NEW, 52, 20, *LIFE))
    assert (report.verdict.class_, report.verdict.confidence) == ("HOST-FAILURE", "strong")
    assert report.process.pid == 41


INNOCENT = {
    "one boot": short(41) + short(52),
    "stopped by itself": short(41, STOPPED) + f"-- Boot {NEW} --\n" + short(52),
    "stopped by its supervisor": short(41)
    + systemd("Stopping llama.service - llama...")
    + systemd("llama.service: Deactivated successfully.")
    + f"-- Boot {NEW} --\n"
    + short(52),
    "words of a client": short(41, f"-- Boot {NEW} --") + short(41),
    "an older boot before it": f"-- Boot {OLD} --\n" + short(41),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_look_alikes_are_no_failure_of_the_host(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, INNOCENT[name]).verdict.class_ != "HOST-FAILURE"


def test_a_crash_before_the_reboot_stays_a_crash(tmp_path: Path) -> None:
    died = systemd("llama.service: Main process exited, code=dumped, status=11/SEGV")
    report = read(tmp_path, short(41) + died + f"-- Boot {NEW} --\n" + short(52))
    assert report.verdict.class_ == "SEGV"
    assert report.process.pid == 41


def test_entries_of_two_hosts_that_alternate_are_no_reboot(tmp_path: Path) -> None:
    text = exported(OLD, 41, 10, *LIFE) + exported(NEW, 52, 20, *LIFE) + exported(OLD, 41, 30, *LIFE[:1])
    assert read(tmp_path, text).verdict.class_ != "HOST-FAILURE"
