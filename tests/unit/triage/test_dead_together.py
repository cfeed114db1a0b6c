"""Deaths of one moment in one text: an incident each, by unit and PID, by container, by a router's port."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.triage.build import process_of
from analyzers.triage.material import numbering
from analyzers.triage.readers.deaths import several
from analyzers.triage.readers.reading import text_materials
from analyzers.triage.run import judge_all
from analyzers.triage.sniff import look
from analyzers.verdict.finding import Finding

BOOT = "a" * 32
ASSERTION = "/src/ggml.c:1: GGML_ASSERT(x) failed"
AWAKE = (
    "0.00.000.300 I srv          init: initializing ...",
    "0.00.030.948 I srv          init: model loaded",
    "0.00.030.949 I srv          init: listening on http://127.0.0.1:8080",
)
ASLEEP = (*AWAKE, "0.01.043.870 I que    start_loop: entering sleeping state")


def entry(at: float, message: str, **fields: str) -> str:
    stamps = {"__REALTIME_TIMESTAMP": f"{1764600000 + at:.6f}", "__MONOTONIC_TIMESTAMP": f"{1000 + at:.6f}"}
    rows = {name: text.replace(".", "") for name, text in stamps.items()}
    rows |= {"_BOOT_ID": BOOT, **fields, "MESSAGE": message}
    return "".join(f"{name}={value}\n" for name, value in rows.items()) + "\n"


def printed(at: float, pid: int, unit: str, message: str) -> str:
    return entry(at, message, _PID=str(pid), _COMM="llama-server", _SYSTEMD_UNIT=unit, _TRANSPORT="stdout")


def told(at: float, unit: str, message: str) -> str:
    return entry(at, message, _PID="1", _UID="0", _COMM="systemd", UNIT=unit, _TRANSPORT="journal")


def kernel(at: float, tid: int) -> str:
    line = f"llama-server[{tid}]: segfault at 172 ip 7f00{tid:04x}1000 sp 7ffe error 4 in libllama.so"
    return entry(at, f"{line}[1000,7f00{tid:04x}0000+3000]", _TRANSPORT="kernel")


def deaths(folder: Path, text: str) -> tuple[dict[int | None, Finding], list[str]]:
    """PID or port -> finding, and what belongs to none."""
    path = folder / "given.txt"
    path.write_text(text)
    with ExitStack() as stack:
        (text_,) = text_materials(path, path.name, look(path), numbering(), stack)
        judged, gaps = judge_all(several(text_))
    told_of = [process_of(one) for one in judged]
    found = {who.pid or who.port: one.finding for who, one in zip(told_of, judged, strict=True)}
    assert len(found) == len(judged)
    return found, [gap.why for gap in gaps]


def two_units(*ends: str) -> str:
    lines = [printed(n / 10, 100, "a.service", line) for n, line in enumerate(AWAKE)]
    lines += [printed(0.5 + n / 10, 200, "b.service", line) for n, line in enumerate(ASLEEP)]
    return "".join((*lines, *ends))


def test_two_units_that_abort_in_one_moment_are_two(tmp_path: Path) -> None:
    ends = (printed(5, pid, unit, ASSERTION) for pid, unit in ((100, "a.service"), (200, "b.service")))
    found, _ = deaths(tmp_path, two_units(*ends))
    assert {pid: one.class_ for pid, one in found.items()} == {100: "ABRT-ASSERT", 200: "ABRT-ASSERT"}


def test_two_units_that_fault_in_one_moment_are_two_and_the_kernels_lines_nobodys(tmp_path: Path) -> None:
    """GIVEN kernel lines that no thread ties to either WHEN systemd tells of both ends THEN one slept."""
    status = "Main process exited, code=dumped, status=11/SEGV"
    ends = (told(5.2, unit, f"{unit}: {status}") for unit in ("a.service", "b.service"))
    found, whys = deaths(tmp_path, two_units(kernel(5.0, 103), kernel(5.0, 205), *ends))
    assert {pid: one.class_ for pid, one in found.items()} == {100: "SEGV", 200: "SEGV-UAF-SLEEP"}
    assert any("do not say to which of these incidents" in why for why in whys)


def test_a_unit_that_lives_on_is_no_incident(tmp_path: Path) -> None:
    found, _ = deaths(tmp_path, two_units(printed(5, 100, "a.service", ASSERTION)))
    assert list(found) == [100]


def router(*ends: str) -> str:
    lines = [
        "0.00.010.000 I srv  llama_server: initializing ...",
        "0.00.020.000 I srv  llama_server: listening on http://127.0.0.1:8080",
        "0.00.100.000 I srv          load: spawning server instance with name=a on port 50001",
        "0.00.200.000 I srv          load: spawning server instance with name=b on port 50002",
        *(f"[50001] {line}" for line in AWAKE[:2]),
        *(f"[50002] {line}" for line in (*AWAKE[:2], ASLEEP[-1])),
    ]
    return "\n".join((*lines, *ends, ""))


def test_two_children_of_a_router_that_die_together_are_two(tmp_path: Path) -> None:
    ended = (
        f"0.05.{n}00.000 I srv  run: instance name={name} exited with status 1"
        for n, name in ((1, "a"), (2, "b"))
    )
    found, _ = deaths(tmp_path, router(*ended))
    assert set(found) == {50001, 50002}
    slept = {port for port, one in found.items() if any("sleep" in reason for reason in one.reasons)}
    assert slept == {50002}


def test_a_child_that_aborted_and_one_that_was_stopped_are_one(tmp_path: Path) -> None:
    ended = (
        f"[50001] {ASSERTION}",
        "0.05.100.000 I srv  run: instance name=a exited with status 1",
        "0.05.200.000 I srv  unload: stopping model instance name=b",
        "0.05.300.000 I srv  run: instance name=b exited with status 0",
    )
    found, _ = deaths(tmp_path, router(*ended))
    assert {port: one.class_ for port, one in found.items()} == {50001: "ABRT-ASSERT"}


@pytest.mark.parametrize("form", ["{}  | {}", "[pod/{}/llama] {}"])
def test_two_containers_of_one_log_are_two(tmp_path: Path, form: str) -> None:
    rows = [form.format(name, line) for line in (*ASLEEP, ASSERTION) for name in ("llama-1", "llama-2")]
    path = tmp_path / "given.log"
    path.write_text("\n".join((*rows, "")))
    with ExitStack() as stack:
        (text,) = text_materials(path, path.name, look(path), numbering(), stack)
        judged, _ = judge_all(several(text))
    assert [one.finding.class_ for one in judged] == ["ABRT-ASSERT"] * 2
    own = [{item.id for item in one.group.evidence} for one in judged]
    assert not own[0] & own[1]
