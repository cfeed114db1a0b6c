from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stackcores import CODE, SERVER, TID, tool, write_core

from analyzers.stacks import eustack
from analyzers.stacks.eustack import parse_eu_stack

TEXT = f"""PID 4000 - core
TID {TID}:
#0  0x0000000000400010 llama_vocab::text_to_token(std::string const&) const - llama-server
    [8aedfa31af1c52fe94168556eb93295be603e89e]@0x400000+0x10
#1  0x0000000000400124 frob<(N - 1)>(int) - llama-server
    [8aedfa31af1c52fe94168556eb93295be603e89e]@0x400000+0x123
#2  0x00007f19fe5278ec __clone3 - libc.so.6
    [93ac61ec5a8eb1396f9fbd350e3169a558528a40]@0x7f19fe41e000+0x1098eb
TID 4001:
#0  0x0000000000400200 - llama-server
#1  0x0000000000999999
"""


def test_frames_carry_module_build_id_and_the_return_address_offset(tmp_path: Path) -> None:
    core = write_core(tmp_path, [0] * 8)
    crashed, other = parse_eu_stack(TEXT, core)
    assert (crashed.tid, crashed.crashed, crashed.complete, other.crashed) == (TID, True, True, False)
    first, second, last = crashed.frames
    assert first.function == "llama_vocab::text_to_token(std::string const&) const"
    assert (first.module, first.offset, first.build_id) == (
        "llama-server",
        0x10,
        "8aedfa31af1c52fe94168556eb93295be603e89e",
    )
    # the name's own " - " is no module, and the offset is the frame's address, not the call before it
    assert (second.function, second.module, second.offset) == ("frob<(N - 1)>(int)", "llama-server", 0x124)
    assert (last.function, last.offset) == ("__clone3", 0x1098EC)


def test_offsets_come_from_the_core_where_the_text_has_none(tmp_path: Path) -> None:
    core = write_core(tmp_path, [0] * 8)
    _, other = parse_eu_stack(TEXT, core)
    assert (other.frames[0].function, other.frames[0].offset) == (None, 0x200)
    assert (other.frames[1].function, other.frames[1].module, other.frames[1].offset) == (None, None, None)


@given(st.integers(min_value=0, max_value=len(TEXT)))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_text_cut_anywhere_keeps_the_whole_frames_before_the_cut(cut: int) -> None:
    whole = parse_eu_stack(TEXT)
    for stack, full in zip(parse_eu_stack(TEXT[:cut]), whole, strict=False):
        kept = [frame.ip for frame in stack.frames[:-1]]
        assert kept == [frame.ip for frame in full.frames[: len(kept)]]


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=400))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_any_text_is_read_without_raising(text: str) -> None:
    parse_eu_stack(f"TID 7:\n#0  0x1 {text}\n{text}")


def test_a_missing_tool_is_a_gap_with_the_install_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = eustack.read_stacks(write_core(tmp_path, [0] * 8))
    assert result.stacks == ()
    assert [gap.command for gap in result.gaps] == [eustack.INSTALL]


def test_output_of_a_tool_that_fails_late_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a tool that prints one thread, complains about the frame limit and fails
    tool(tmp_path, "eu-stack", f'printf "TID {TID}:\\n#0  0x400010 foo - llama-server\\n"\n'
         f'echo "eu-stack: tid {TID}: shown max number of frames (64)" >&2; exit 1')  # fmt: skip
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    result = eustack.read_stacks(write_core(tmp_path, [0] * 8))
    # THEN the frames count and the thread is known to be cut
    assert [frame.function for frame in result.stacks[0].frames] == ["foo"]
    assert (result.limited, result.gaps) == (frozenset({TID}), ())


def test_a_core_the_tool_cannot_read_is_a_gap_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "eu-stack", 'printf "eu-stack: not\\033[31m a core\\n" >&2; exit 2')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (gap,) = eustack.read_stacks(write_core(tmp_path, [0] * 8)).gaps
    assert "not?[31m a core" in gap.why


def test_a_tool_that_hangs_is_a_gap_and_what_it_said_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(
        tmp_path, "eu-stack", f'printf "TID {TID}:\\n#0  0x400010 foo - llama-server\\n"\nwhile :; do :; done'
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(eustack, "SECONDS", 0.3)
    result = eustack.read_stacks(write_core(tmp_path, [0] * 8))
    assert result.usable
    assert "time" in result.gaps[0].why


def test_addresses_outside_every_file_have_no_offset(tmp_path: Path) -> None:
    core = write_core(tmp_path, [0] * 8)
    assert eustack.module_offset(core, CODE + 5) == (5, SERVER)
    assert eustack.module_offset(core, 5) == (None, None)
