"""Kernel lines: only the kernel's own, newer than the mark, and a gap with the setting where refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import KernelFact
from collector.sources import kernel
from collector.sources.kernel import (
    KernelLine,
    as_dmesg,
    parse_dmesg,
    parse_record,
    read_kernel_lines,
    to_kernel_evidence,
)

RECORD = b"6,1234,1030887519,-;traps: python[11144] general protection fault ip:7f17\n SUBSYSTEM=x\n"


def test_a_kernel_record_gives_time_and_text_without_its_continuation() -> None:
    line = parse_record(RECORD)
    assert line == KernelLine(1030.887519, "traps: python[11144] general protection fault ip:7f17")


@pytest.mark.parametrize(
    "record",
    [
        b"14,1,5,-;llama-server[1]: segfault at 0",  # facility user: any root process can write that
        b"30,1,5,-;systemd[1]: x",
        b"",
        b"6,1",
        b"x,y,z;text",
        b"6,1,99999999999999999999999,-;text",
    ],
)
def test_what_the_kernel_did_not_say_is_left_out(record: bytes) -> None:
    assert parse_record(record) is None


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=300))
def test_no_bytes_upset_the_parsers_or_reach_a_terminal(data: bytes) -> None:
    lines = [parse_record(data), parse_record(b"6,1,5,-;" + data), *parse_dmesg(b"<6>[ 1.0] " + data)]
    assert all(line.text.isprintable() or not line.text for line in lines if line)


def test_only_lines_from_the_mark_on_are_read(tmp_path: Path) -> None:
    # GIVEN
    device = tmp_path / "kmsg"
    device.write_bytes(RECORD)

    # WHEN / THEN
    assert len(read_kernel_lines(1030.8, kmsg=device).lines) == 1
    assert read_kernel_lines(1030.9, kmsg=device).lines == ()


class Ring:
    """A device that gives records one by one, one overwritten place among them, and then would block."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[Any] = [RECORD, BrokenPipeError(), RECORD.replace(b"11144", b"11145")]
        monkeypatch.setattr(os, "read", lambda _, __: self.read())

    def read(self) -> bytes:
        answer = self.answers.pop(0) if self.answers else BlockingIOError()
        if isinstance(answer, OSError):
            raise answer
        made: bytes = answer
        return made


def test_an_overwritten_stretch_is_told_and_reading_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN
    device = tmp_path / "kmsg"
    device.touch()
    Ring(monkeypatch)

    # WHEN
    read = read_kernel_lines(0, kmsg=device)

    # THEN
    assert [line.text[14:19] for line in read.lines] == ["11144", "11145"]
    assert read.lost


def test_a_refusal_names_the_setting_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    setting = tmp_path / "dmesg_restrict"
    setting.write_text("1\n")
    monkeypatch.setattr(kernel, "_RESTRICT", setting)
    monkeypatch.setattr(os, "open", refuse)

    # WHEN
    read = read_kernel_lines(0)

    # THEN
    assert read.lines == ()
    assert "kernel.dmesg_restrict" in read.gaps[0].why
    assert "dmesg" in (read.gaps[0].command or "")


DMESG = """#!/bin/sh
printf '<6>[   12.500000] llama-server[7]: segfault at 0\\n<14>[ 12.6] forged[7]: x\\n<6>[ 1.0] old\\n'
"""


@pytest.mark.parametrize(("script", "lines"), [(DMESG, 1), ("#!/bin/sh\nexit 1\n", 0), (None, 0)])
def test_without_the_device_dmesg_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, lines: int
) -> None:
    # GIVEN
    if script is not None:
        (tmp_path / "dmesg").write_text(script)
        (tmp_path / "dmesg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")

    # WHEN
    read = read_kernel_lines(10.0, kmsg=tmp_path / "none")

    # THEN
    assert len(read.lines) == lines
    assert len(read.gaps) == (0 if lines else 1)


def test_telling_lines_become_evidence_set_by_the_kernel() -> None:
    # GIVEN
    lines = (KernelLine(12.5, "llama-server[7]: segfault at 0"), KernelLine(12.6, "usb 1-1: new device"))

    # WHEN
    def parse(text: str) -> KernelFact | None:
        return KernelFact(shape="segfault") if "segfault" in text else None

    made = to_kernel_evidence(lines, parse)

    # THEN
    assert [(e.kind, e.mono, e.trust) for e in made] == [("kernel", 12.5, Trust.KERNEL)]
    assert as_dmesg(lines).startswith("[   12.500000] llama-server[7]: segfault at 0\n")
    assert [line.text for line in parse_dmesg(b"<6>" + as_dmesg(lines[:1]).encode())] == [lines[0].text]


def test_the_real_log_is_read_or_the_gap_says_why() -> None:
    read = read_kernel_lines(0.0)
    assert bool(read.gaps) != (os.access("/dev/kmsg", os.R_OK) and bool(read.lines))
