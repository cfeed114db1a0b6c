from __future__ import annotations

from pathlib import Path

import pytest
from stackcores import tool

from analyzers.stacks import gdb

ANSWERS = r"""
while read -r line; do
  token=${line%%-*}
  case "$line" in
    *-stack-list-frames\ 0\ 63*) printf '%s^done,stack=[frame={level="0",addr="0x10",func="inner",file="/a/b.cpp",line="7"},frame={level="1",addr="0x10",func="outer",from="/l/libllama.so"},frame={level="2",addr="0x20",func="??"}]\n' "$token";;
    *-stack-list-frames*) printf '%s^done,stack=[frame={level="0",addr="0x1",func="pthread_cond_wait"},frame={level="1",addr="0x2",func="server_queue::start_loop(long)"}]\n' "$token";;
    *-thread-info*) printf '%s^done,threads=[{id="1",target-id="Thread 0x7 (LWP 70)"},{id="2",target-id="LWP 71"}]\n' "$token";;
    *'(server_queue*)0)->sleeping'*) printf '%s^done,value="5"\n' "$token";;
    *'this->sleeping'*) printf '%s^done,value="true"\n' "$token";;
    *'this->time_last_task'*) printf '%s^done,value="-12"\n' "$token";;
    *-thread-select*|*-stack-select-frame*) printf '%s^done\n' "$token";;
    *) printf '%s^error,msg="No symbol in current context."\n' "$token";;
  esac
done
"""  # noqa: E501


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_frames_flags_and_layout_are_read(fake: Path) -> None:
    tool(fake, "gdb", ANSWERS)
    answer = gdb.ask(fake / "core", None, loop_tid=71)
    inner, outer, unnamed = answer.frames
    assert (inner.function, inner.file, inner.line, inner.inlined) == ("inner", "/a/b.cpp", 7, True)
    assert (outer.function, outer.module, outer.inlined) == ("outer", "libllama.so", False)
    assert unnamed.function is None
    assert answer.layout == {"sleeping": 5}
    assert answer.queue == {"sleeping": 1, "time_last_task": -12}
    assert answer.gap is None


def test_the_loop_thread_is_searched_where_nobody_knows_it(fake: Path) -> None:
    tool(fake, "gdb", ANSWERS)
    answer = gdb.ask(fake / "core", None)
    assert answer.loop_tid == 70


def test_the_budget_is_a_named_gap_with_the_command_to_go_on(fake: Path) -> None:
    # GIVEN a gdb that answers the frames and then hangs
    tool(fake, "gdb", ANSWERS.replace("*-thread-info*)", "*-thread-info*) while :; do :; done ;; *-never*)"))
    answer = gdb.ask(fake / "a core", "/bin/x", 0.5)
    # THEN what was said stands
    assert len(answer.frames) == 3
    assert answer.gap is not None
    assert "time budget" in answer.gap.why
    assert answer.gap.command == f"gdb -nx -q /bin/x '{fake}/a core'"


def test_a_gdb_that_dies_is_a_gap(fake: Path) -> None:
    tool(fake, "gdb", "read -r line; exit 1")
    answer = gdb.ask(fake / "core", None)
    assert answer.gap is not None
    assert "ended by itself" in answer.gap.why


def test_no_gdb_is_a_gap_with_the_install_line(fake: Path) -> None:
    answer = gdb.ask(fake / "core", None)
    assert answer.gap is not None
    assert answer.gap.command == gdb.INSTALL


def test_nothing_of_the_target_may_run(fake: Path) -> None:
    argv = gdb._argv("/usr/bin/gdb", "-core", "/opt/a b")
    assert argv[1] == "-nx"
    for setting in ("set auto-load off", "set debuginfod enabled off", "set index-cache enabled off"):
        assert argv[argv.index(setting) - 1] == "-iex"
    # file names are never taken for options
    assert argv[-2:] == ["--se=/opt/a b", "--core=-core"]


@pytest.mark.parametrize(
    "said",
    [
        "stack=[]",
        'stack="none"',
        'stack=["x","y"]',
        'stack=[frame={level="²",func={a="b"},line="²",addr="12",file=["x"]}]',
        'stack=[frame={level="9999999999999999999999",line="9999999999999999999999",func="server_queue::start_loop"}]',
        'threads=["x"],stack=[]',
        'threads=[{target-id="LWP 99999999999999999999999999"},{id="one",target-id="LWP 71"},{id="²"}]',
        'value="0123"',
        'value="-"',
        'value="0xfffffffffffffffffffffff"',
    ],
)
@pytest.mark.parametrize("loop_tid", [None, 71])
def test_answers_of_any_shape_are_no_more_than_nothing_learnt(
    fake: Path, said: str, loop_tid: int | None
) -> None:
    # GIVEN a gdb whose every answer is well formed and has another shape than it should
    tool(fake, "gdb", f"while read -r line; do printf '%s^done,%s\\n' \"${{line%%-*}}\" '{said}'; done\n")
    # WHEN it is asked THEN nothing is raised, and no number is made up
    answer = gdb.ask(fake / "core", None, loop_tid=loop_tid)
    assert answer.gap is None
    assert all(frame.line is None for frame in answer.frames)
