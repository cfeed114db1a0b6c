"""Return addresses looked up on the stack, what they are trusted for, and modules the unwinder misplaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stackcores import CODE, SERVER, STACK, TID, tool, write_core

from analyzers.contracts.facts import Frame, StackFact
from analyzers.core.memory import Memory
from analyzers.core.model import Core, MappedFile, Segment
from analyzers.core.text import Text
from analyzers.stacks import confine, ladder
from analyzers.stacks.eustack import parse_eu_stack
from analyzers.stacks.scan import MAX_GUESSES, Scan
from analyzers.stacks.trust import TRUSTS, stack_trust, trust_of

CALL = bytes.fromhex("e8 fb ff ff ff")
LIB = "/opt/server/libllama.so"


def with_code(core: Core, folder: Path, code: dict[int, bytes]) -> Core:
    """The core with its code dumped as well."""
    text = bytearray(b"\x90" * 0x1000)
    for at, data in code.items():
        text[at : at + len(data)] = data
    path = folder / "whole"
    old = core.path.read_bytes()
    path.write_bytes(old + bytes(text))
    segments = [
        replace(s, file_offset=len(old), file_size=len(text)) if s.executable else s for s in core.segments
    ]
    return replace(core, path=path, segments=tuple(segments))


def scanned(core: Core) -> StackFact | None:
    with Memory(core) as memory, Text(core, memory, lambda _: None) as text:
        return Scan(core, memory, text).stack(core.threads[0], True)


def test_only_words_behind_a_call_are_callers_where_the_code_is_at_hand(tmp_path: Path) -> None:
    # GIVEN a stack with a return address, a pointer to code behind no call, and a plain number
    core = write_core(tmp_path, [CODE + 0x105, CODE + 0x200, 7, CODE + 0x305])
    core = with_code(core, tmp_path, {0x100: CALL, 0x300: bytes.fromhex("90 90 90 ff d0")})
    made = scanned(core)
    assert made is not None
    assert made.rung == "scan"
    assert not made.complete
    assert [(frame.ip, frame.trust) for frame in made.frames] == [
        (CODE + 0x10, "register"),
        (CODE + 0x105, "scanned"),
        (CODE + 0x305, "scanned"),
    ]


def test_without_the_code_every_pointer_is_a_guess_and_few_are_kept(tmp_path: Path) -> None:
    made = scanned(write_core(tmp_path, [CODE + 0x100 + 8 * n for n in range(100)]))
    assert made is not None
    assert [frame.trust for frame in made.frames[1:]] == ["guessed"] * MAX_GUESSES


def test_a_call_that_leads_out_of_all_code_is_none(tmp_path: Path) -> None:
    core = with_code(write_core(tmp_path, [CODE + 0x105]), tmp_path, {0x100: bytes.fromhex("e8 ff ff ff 7f")})
    assert scanned(core) is None


@pytest.mark.parametrize("rsp", [0, STACK + 3, (1 << 64) - 1, STACK - 1])
def test_any_stack_pointer_is_survived(tmp_path: Path, rsp: int) -> None:
    made = scanned(write_core(tmp_path, [CODE + 0x105] * 4, rsp=rsp))
    assert made is None or made.rung == "scan"


def test_every_way_has_a_sentence_and_the_worst_speaks_for_the_stack() -> None:
    register, guess = Frame(trust="register"), Frame(trust="guessed")
    assert stack_trust(StackFact(rung="scan", frames=(register, Frame(), guess))) == TRUSTS["guessed"]
    assert stack_trust(StackFact(rung="eu-stack", frames=(Frame(),))) == TRUSTS["unwound"]
    assert stack_trust(StackFact(rung="notes")) == TRUSTS["register"]
    assert (trust_of(Frame(), "a-later-rung"), stack_trust(StackFact(rung="a-later-rung"))) == (None, None)


# a module that the unwinder put where it is not


def placed(base: int) -> tuple[StackFact, ...]:
    lines = [
        f"TID {TID}:",
        f"#0  {CODE + 16:#x} read_wrong - libllama.so",
        f"    [{'ab' * 20}]@{base:#x}+0x10",
        "#1  0x7f11 start_thread - libc.so.6",
    ]
    core = Core(Path("core"), mapped=(MappedFile(CODE, CODE + 0x1000, 0, LIB),), build_ids={LIB: "ab" * 20})
    return parse_eu_stack("\n".join(lines), core)


def test_a_misplaced_module_names_nothing_and_ends_what_is_believed() -> None:
    # GIVEN the tool's base a megabyte below the kernel's
    (stack,) = placed(CODE - 0x100000)
    assert stack.frames == (
        Frame(ip=CODE + 16, offset=16, module="libllama.so", build_id="ab" * 20, trust="register"),
    )
    assert not stack.complete


def test_the_same_text_with_the_right_base_is_believed() -> None:
    (stack,) = placed(CODE)
    assert [frame.function for frame in stack.frames] == ["read_wrong", "start_thread"]
    assert stack.frames[0].trust is None


def test_an_unwound_stack_without_names_is_not_replaced_by_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a stripped build whose unwind tables worked
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(confine, "find_tool", lambda name: str(folder / name) if name == "eu-stack" else None)
    echo = "\n".join(
        f'echo "{line}"' for line in (f"TID {TID}:", f"#0  {CODE + 16:#x}", f"#1  {CODE + 32:#x}")
    )
    tool(folder, "eu-stack", echo)
    core = with_code(write_core(tmp_path, [CODE + 0x105]), tmp_path, {0x100: CALL})
    result = ladder.unwind(replace(core, mapped=(MappedFile(CODE, CODE + 0x1000, 0, SERVER),)))
    assert result.crashed is not None
    assert (result.rung, [frame.ip for frame in result.crashed.frames]) == (
        "eu-stack",
        [CODE + 16, CODE + 32],
    )


def test_a_segment_that_lies_about_its_size_is_read_within_the_file(tmp_path: Path) -> None:
    core = write_core(tmp_path, [CODE + 0x105])
    huge = Segment(STACK, 1 << 50, 4096, 1 << 50, False, writable=True)
    made = scanned(replace(core, segments=(*core.segments[:1], huge)))
    assert made is None or len(made.frames) < 80
