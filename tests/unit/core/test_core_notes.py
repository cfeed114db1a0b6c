"""The core-note reader: what it reads, what it refuses, what it does with lies."""

from __future__ import annotations

import os
import resource
import struct
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analyzers.core import notes as notes_module
from analyzers.core import records as records_module
from analyzers.core.model import Core
from analyzers.core.notes import read_core
from analyzers.errors import UserError
from elfcore import CoreBuilder, R, W, X, header, note, program_header, prstatus


def a_core() -> CoreBuilder:
    return (
        CoreBuilder(auxv={3: 0x400040, 31: 0x7FFF_0000})
        .thread(4007, rip=0x1234, rsp=0x7F00_1000)
        .thread(4000, rip=0x5678, orig_rax=202)
        .load(0x400000, b"\x01" * 64, R | X, 4096)
        .load(0x7F00_0000, b"\x02" * 8192, R | W)
        .file(0x400000, 0x401000, 0, "/opt/server/llama-server")
    )


def read(tmp_path: Path, data: bytes) -> Core:
    path = tmp_path / "core"
    path.write_bytes(data)
    return read_core(path)


def test_everything_the_notes_say_is_read(tmp_path: Path) -> None:
    # GIVEN a core of two threads
    # WHEN it is read
    core = read_core(a_core().write(tmp_path / "core"))
    # THEN signal, process, threads in order, mapped files and segments are as written
    assert (core.signal, core.si_code, core.fault_address) == (11, 1, 0x172)
    assert (core.pid, core.program) == (4000, "llama-server")
    assert core.arguments == "llama-server --api-key sk-planted-secret"
    assert [thread.tid for thread in core.threads] == [4007, 4000]
    assert core.crashed is not None
    assert core.crashed.registers["rsp"] == 0x7F00_1000
    assert core.mapped[0].path == "/opt/server/llama-server"
    assert [(row.executable, row.writable) for row in core.segments] == [(True, False), (False, True)]
    assert core.auxv == {3: 0x400040, 31: 0x7FFF_0000}
    assert (core.cut, core.limits) == (False, ())


def test_the_registers_offset_points_at_the_registers_in_the_file(tmp_path: Path) -> None:
    # GIVEN a core WHEN the register block of the second thread is read by its offset
    core = read_core(a_core().write(tmp_path / "core"))
    with core.path.open("rb") as file:
        file.seek(core.threads[1].registers_offset + 16 * 8)
        # THEN rip stands there, so that a tool may patch it in a copy
        assert struct.unpack("<Q", file.read(8))[0] == 0x5678


@pytest.mark.parametrize(
    ("signal", "code", "fault", "expected"),
    [
        (11, 1, 0x172, 0x172),
        (11, 2, 0x7FE9_F40F_CFF8, 0x7FE9_F40F_CFF8),
        (11, 1, 0, 0),  # a true null pointer is an address
        (11, 0x80, 0, None),  # SI_KERNEL: the kernel knew none
        (11, 1, 0x8000_0000_0000, None),  # non-canonical
        (11, 1, 0xFFFF_8000_0000_0000, 0xFFFF_8000_0000_0000),  # kernel half, canonical
        (11, 0, 1000, None),  # SI_USER: sent by kill, the field holds the sender
        (11, -6, 1000, None),  # SI_TKILL
        (6, -6, 1000, None),
        (7, 2, 0x1000, 0x1000),
        (8, 1, 0x2000, 0x2000),
        (4, 2, 0x3000, 0x3000),
    ],
)
def test_the_fault_address_is_the_cpus_or_unknown(
    tmp_path: Path, signal: int, code: int, fault: int, expected: int | None
) -> None:
    # GIVEN a siginfo note WHEN the core is read
    core = read(tmp_path, CoreBuilder(signal=signal, si_code=code, fault=fault).thread(1).bytes())
    # THEN only an address set by the CPU counts
    assert (core.signal, core.si_code, core.fault_address) == (signal, code, expected)


def test_without_siginfo_the_signal_comes_from_the_first_thread(tmp_path: Path) -> None:
    core = read(tmp_path, CoreBuilder(signal=11, siginfo=False).thread(1).bytes())
    assert (core.signal, core.si_code, core.fault_address) == (11, None, None)


@pytest.mark.parametrize("signal", [0, 19])
def test_a_snapshot_of_a_living_process_has_no_signal(tmp_path: Path, signal: int) -> None:
    core = read(tmp_path, CoreBuilder(signal=signal, si_code=0x80, fault=0).thread(1).bytes())
    assert (core.signal, core.si_code, core.fault_address) == (None, None, None)


def test_a_debugger_writes_one_siginfo_per_thread_and_the_first_counts(tmp_path: Path) -> None:
    # GIVEN a second siginfo, as gdb writes for every thread
    other = note(0x53494749, struct.pack("<iiiiQ", 19, 0, 0x80, 0, 0).ljust(128, b"\0"))
    # WHEN read THEN the crashed thread's is kept
    core = read(tmp_path, CoreBuilder(extra_notes=other).thread(1).thread(2).bytes())
    assert (core.signal, core.fault_address) == (11, 0x172)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty file"),
        (b"hello, this is a log line\n" * 9, "not a core"),
        (header()[:20], "cut inside"),
        (header(kind=2), "an executable, not a core"),
        (header(kind=3), "an executable, not a core"),
        (header(kind=1), "an ELF file, not a core"),
        (header(machine=183), "a core of another architecture (aarch64)"),
        (header(machine=243), "another architecture (riscv)"),
        (header(machine=4711), "another architecture (machine 4711)"),
        (header(bits=1), "another architecture (32-bit)"),
        (header(endian=2), "another architecture (big-endian)"),
        (header()[:54] + struct.pack("<H", 32) + header()[56:], "damaged core header"),
    ],
)
def test_what_is_no_x86_64_core_is_refused_in_one_line(tmp_path: Path, data: bytes, words: str) -> None:
    # GIVEN something else WHEN it is read THEN one line says what, where and what to do
    with pytest.raises(UserError) as caught:
        read(tmp_path, data)
    assert words in str(caught.value)
    assert "core" in caught.value.where
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_directories_missing_files_and_pipes_are_refused_without_hanging(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path, "directory"),
        (tmp_path / "none", "no such"),
        (tmp_path / "pipe", "regular"),
    ):
        with pytest.raises(UserError, match=words):
            read_core(path)


def test_a_file_without_rights_is_refused(tmp_path: Path) -> None:
    path = a_core().write(tmp_path / "core")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(UserError, match="permission denied"):
        read_core(path)


def test_the_shown_name_is_used_and_made_harmless(tmp_path: Path) -> None:
    # GIVEN an unpacked core whose own name carries a terminal escape
    path = tmp_path / "tmp123"
    path.write_bytes(b"text")
    # WHEN it is refused THEN the error names the user's file, without the escape
    with pytest.raises(UserError) as caught:
        read_core(path, shown="core\x1b[31m.zst")
    assert caught.value.where == "core?[31m.zst"


def test_a_core_cut_in_its_memory_keeps_all_notes(tmp_path: Path) -> None:
    data = a_core().bytes()
    core = read(tmp_path, data[:-5000])
    assert core.cut
    assert len(core.threads) == 2
    # and the last segment tells how much of it is really there
    assert core.segments[1].file_size == 8192 - 5000
    assert core.read(0x7F00_0000 + 8000, 10) == b""


def test_a_core_cut_before_its_notes_is_still_a_core(tmp_path: Path) -> None:
    builder = a_core()
    end_of_table = 64 + 56 * (1 + len(builder.memory))
    for size in (64, 100, end_of_table, end_of_table + 40):
        core = read(tmp_path, builder.bytes()[:size])
        assert core.cut
        assert core.threads == ()
        assert core.signal is None


def test_a_core_without_a_note_segment_is_cut(tmp_path: Path) -> None:
    assert read(tmp_path, header()).cut


def test_more_than_65534_segments_are_counted_by_section_zero(tmp_path: Path) -> None:
    # GIVEN PN_XNUM in the header and the number in sh_info
    builder = a_core()
    builder.xnum = True
    # WHEN read THEN all segments are there; and without the section it is a cut core, not an error
    core = read(tmp_path, builder.bytes())
    assert (len(core.segments), len(core.threads), core.cut) == (2, 2, False)
    damaged = bytearray(builder.bytes())
    struct.pack_into("<Q", damaged, 40, 1 << 40)
    assert read(tmp_path, bytes(damaged)).cut


@pytest.mark.parametrize(
    ("constant", "module", "value", "words"),
    [
        ("MAX_SEGMENTS", notes_module, 2, "only 2 of 3 segments"),
        ("MAX_NOTE_BYTES", notes_module, 400, "only 400 of"),
        ("MAX_THREADS", records_module, 1, "only the first 1 threads"),
        ("MAX_MAPPED_FILES", records_module, 0, "only 0 of 1 mapped files"),
    ],
)
def test_bounds_are_named_when_they_are_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, constant: str, module: object, value: int, words: str
) -> None:
    monkeypatch.setattr(module, constant, value)
    core = read_core(a_core().write(tmp_path / "core"))
    assert any(words in limit for limit in core.limits)


def test_a_lying_mapped_file_count_costs_nothing(tmp_path: Path) -> None:
    # GIVEN an NT_FILE note that promises 2**60 rows
    body = struct.pack("<QQ", 1 << 60, 4096) + struct.pack("<QQQ", 1, 2, 0) + b"/x\0"
    core = read(tmp_path, CoreBuilder(extra_notes=note(0x46494C45, body)).thread(1).bytes())
    # THEN nothing is invented and the lie is named
    assert core.mapped == ()
    assert any("mapped files" in limit for limit in core.limits)


def test_overlapping_and_wrapping_segments_are_harmless(tmp_path: Path) -> None:
    top = (1 << 64) - 4096
    core = read(
        tmp_path,
        CoreBuilder()
        .thread(1)
        .load(0x1000, b"a" * 64)
        .load(0x1010, b"b" * 64)
        .load(top, b"c", R, 1 << 63)
        .bytes(),
    )
    assert core.read(0x1000, 4) == b"aaaa"
    assert core.read(top, 8) == b"c"


def test_a_huge_sparse_core_reads_no_more_bytes_than_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN the same core with a gigabyte behind it
    small = a_core().write(tmp_path / "small")
    large = a_core().write(tmp_path / "large")
    os.truncate(large, 1 << 30)
    counted: list[int] = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: counted.append(size) or real(fd, size, at))
    # WHEN both are read
    read_core(small)
    first, counted[:] = sum(counted), []
    core = read_core(large)
    # THEN the same bytes were asked for
    assert sum(counted) == first < 100_000
    assert core.file_size == 1 << 30


def test_two_note_segments_are_both_read(tmp_path: Path) -> None:
    a, b = note(1, prstatus(1, 11, {})), note(1, prstatus(2, 11, {}))
    at = 64 + 2 * 56
    rows = program_header(4, 0, at, 0, len(a), 0) + program_header(4, 0, at + len(a), 0, len(b), 0)
    core = read(tmp_path, header(phnum=2) + rows + a + b)
    assert [thread.tid for thread in core.threads] == [1, 2]


def _read_or_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        core = read_core(path)
    except UserError:
        return
    assert isinstance(core, Core)
    for segment in core.segments[:8]:
        assert len(core.read(segment.address, 64)) <= 64


VALID = a_core().bytes()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.binary(max_size=600))
@example(data=b"\x7fELF")
def test_random_bytes_are_refused_never_crash(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp()
    _read_or_refused(folder / "random", data)
    _read_or_refused(folder / "random", header(phnum=3) + data)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    keep=st.integers(0, len(VALID)),
    edits=st.lists(st.tuples(st.integers(0, 2500), st.binary(min_size=1, max_size=9)), max_size=6),
)
def test_a_perturbed_core_is_read_or_refused_in_bounded_memory(
    tmp_path_factory: pytest.TempPathFactory, keep: int, edits: list[tuple[int, bytes]]
) -> None:
    # GIVEN a valid core, cut anywhere and overwritten in a few places
    data = bytearray(VALID[:keep])
    for at, new in edits:
        data[at : at + len(new)] = new
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # WHEN it is read THEN it is a core or a UserError
    _read_or_refused(tmp_path_factory.getbasetemp() / "perturbed", bytes(data))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KB


@pytest.mark.parametrize("field_at", [32, 40, 56, 60])
def test_extreme_header_fields_do_not_hang_or_allocate(tmp_path: Path, field_at: int) -> None:
    data = bytearray(VALID)
    struct.pack_into(
        "<H" if field_at >= 56 else "<Q", data, field_at, 0xFFFF if field_at >= 56 else (1 << 64) - 1
    )
    _read_or_refused(tmp_path / "extreme", bytes(data))
