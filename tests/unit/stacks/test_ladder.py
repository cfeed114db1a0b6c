from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stackcores import CODE, SERVER, TID, tool, write_core

from analyzers.stacks import eustack, ladder

BUILD = "8aedfa31af1c52fe94168556eb93295be603e89e"


def prints(*rows: str, status: int = 0) -> str:
    return "\n".join([*(f'echo "{row}"' for row in rows), f"exit {status}"])


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_without_a_tool_the_registers_still_tell_where(tmp_path: Path, bin_folder: Path) -> None:
    core = replace(write_core(tmp_path, [0] * 8, threads=2), build_ids={SERVER: BUILD})
    result = ladder.unwind(core)
    assert (result.rung, [gap.command for gap in result.gaps]) == ("notes", [eustack.INSTALL])
    assert result.crashed is not None
    (frame,) = result.crashed.frames
    assert (frame.module, frame.offset, frame.build_id) == ("llama-server", 0x10, BUILD)
    assert [stack.tid for stack in result.stacks] == [TID, TID + 1]


def test_the_crashed_thread_comes_first_and_lost_threads_are_kept(tmp_path: Path, bin_folder: Path) -> None:
    # GIVEN a tool that names another thread first and one not at all
    core = write_core(tmp_path, [0] * 8, threads=3)
    rows = [
        f"TID {TID + 1}:",
        "#0  0x5 idle - s",
        f"TID {TID}:",
        f"#0  {CODE:#x} boom - s",
        "#1  0x9 main - s",
    ]
    tool(bin_folder, "eu-stack", prints(*rows))
    result = ladder.unwind(core)
    assert [(s.tid, s.rung, s.crashed) for s in result.stacks] == [
        (TID, "eu-stack", True),
        (TID + 1, "eu-stack", False),
        (TID + 2, "notes", False),
    ]
    assert (result.rung, result.gaps) == ("eu-stack", ())


def test_a_deep_stack_is_unwound_again(tmp_path: Path, bin_folder: Path) -> None:
    # GIVEN a stack deeper than the first look that is no recursion
    script = "\n".join(
        [
            'case "$*" in *"-n 64"*)',
            prints(f"TID {TID}:", f"#0  {CODE:#x} deep - s", status=0).removesuffix("\nexit 0"),
            f'echo "eu-stack: tid {TID}: shown max number of frames (64)" >&2; exit 1;;',
            "esac",
            prints(f"TID {TID}:", f"#0  {CODE:#x} deep - s", "#1  0x9 main - s"),
        ]
    )
    tool(bin_folder, "eu-stack", script)
    result = ladder.unwind(write_core(tmp_path, [0] * 8))
    assert result.crashed is not None
    assert (len(result.crashed.frames), result.crashed.complete) == (2, True)


def test_missing_objects_are_named_with_their_build_id(tmp_path: Path, bin_folder: Path) -> None:
    core = replace(write_core(tmp_path, [0] * 8), build_ids={SERVER: BUILD})
    tool(bin_folder, "eu-stack", prints(f"TID {TID}:", f"#0  {CODE + 16:#x}", status=1))
    missing, callers = ladder.unwind(core).gaps
    assert f"llama-server (build-id {BUILD})" in missing.why
    assert callers.command is not None
    assert BUILD in callers.command


def test_a_cut_core_says_so(tmp_path: Path, bin_folder: Path) -> None:
    core = replace(write_core(tmp_path, [0] * 8), cut=True)
    tool(bin_folder, "eu-stack", prints(f"TID {TID}:", f"#0  {CODE:#x} deep - s", status=1))
    (gap,) = ladder.unwind(core).gaps
    assert "cut while it was written" in gap.why


def test_an_executable_that_cannot_be_read_is_a_gap_and_not_used(tmp_path: Path, bin_folder: Path) -> None:
    core = write_core(tmp_path, [0] * 8)
    tool(
        bin_folder,
        "eu-stack",
        f'case "$*" in *" -e "*) exit 2;; esac\n{prints(f"TID {TID}:", "#0  0x9 main - s")}',
    )
    result = ladder.unwind(core, tmp_path / "nothing")
    assert result.gaps[0].what == "the executable"
    assert result.rung == "eu-stack"


def test_another_build_is_named_with_both_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = replace(write_core(tmp_path, [0] * 8), build_ids={SERVER: BUILD})
    monkeypatch.setattr(ladder, "compare", lambda *_: ladder.Mismatch(BUILD, "f00d"))
    program, (gap,) = ladder.checked_program(core, tmp_path / "other")
    assert program is None
    assert BUILD in gap.why
    assert "f00d" in gap.why


def test_a_program_that_cannot_be_compared_is_used_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = write_core(tmp_path, [0] * 8)
    monkeypatch.setattr(ladder, "compare", lambda *_: ladder.Unknown("the file has no build-id"))
    program, (gap,) = ladder.checked_program(core, tmp_path / "other")
    assert program == str(tmp_path / "other")
    assert gap.why == "the file has no build-id"


def test_a_core_without_threads_is_no_crash_of_ours(tmp_path: Path, bin_folder: Path) -> None:
    core = replace(write_core(tmp_path, [0] * 8), threads=())
    assert ladder.unwind(core).crashed is None


def test_a_stack_that_ends_before_its_beginning_is_a_gap_although_every_frame_has_a_name(
    tmp_path: Path, bin_folder: Path
) -> None:
    # GIVEN a tool that loses its way where a file is missing
    core = write_core(tmp_path, [0] * 8)
    tool(bin_folder, "eu-stack", prints(f"TID {TID}:", f"#0  {CODE:#x} boom - s", "#1  0x9 caller - s"))
    [gap] = ladder.unwind(core).gaps
    assert gap.what == "the crashed thread's whole stack"
    assert "2 frames" in gap.why
    assert gap.command is not None
    assert "--exe" in gap.command
