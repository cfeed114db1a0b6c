"""Whole texts: lives, bounds, direction, damage."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.errors import UserError
from analyzers.logs.keep import FIRST_KEPT, LAST_KEPT
from analyzers.logs.lives import LIVES_KEPT_FIRST, LIVES_KEPT_LAST
from analyzers.logs.reading import Reading
from analyzers.logs.scan import read_text

START = [
    "0.00.000.400 I srv          init: initializing ...",
    "0.00.001.874 I srv          init: build_info: b11549-abc",
    "0.00.001.891 I cmn  common_param: common_params_print_info: verbosity = 3 (adjust with `-lv N`)",
    "0.00.003.883 I srv          init: loading model",
    "0.00.003.952 I srv    load_model: loading model '/m/tiny.gguf'",
    "0.00.013.828 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512, kv_unified = 'false'",
    "0.00.016.641 I srv          init: model loaded",
    "0.00.016.657 I srv          init: listening on http://127.0.0.1:8080",
]
TIMING = "{} I slot print_timing: id  0 | task 0 |       total time =       1.17 ms /    11 tokens"


def stamp(seconds: float) -> str:
    micros = round(seconds * 1e6)
    return f"{micros // 60000000}.{micros // 1000000 % 60:02}.{micros // 1000 % 1000:03}.{micros % 1000:03}"


def enter(at: float) -> list[str]:
    return [
        f"{stamp(at)} I que    start_loop: entering sleeping state",
        f"{stamp(at + 0.0002)} I srv  handle_sleep: server is entering sleeping state",
    ]


def wake(at: float) -> list[str]:
    return [
        f"{stamp(at)} I que    start_loop: exiting sleeping state",
        f"{stamp(at + 0.0001)} I srv  handle_sleep: server is exiting sleeping state",
        f"{stamp(at + 0.0002)} I srv    load_model: loading model '/m/tiny.gguf'",
        f"{stamp(at + 0.01)} I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512, kv = 'no'",
    ]


def task(at: float, number: int) -> list[str]:
    return [
        f"{stamp(at)} I slot launch_slot_: id  0 | task {number} | processing task, is_child = 0",
        TIMING.format(stamp(at + 0.001)),
        f"{stamp(at + 0.002)} I slot      release: id  0 | task {number} | stop processing: n_tokens = 7",
    ]


def read(lines: list[str], name: str = "server.log") -> Reading:
    return read_text(io.BytesIO("\n".join(lines).encode() + b"\n"), name)


def events(items: tuple[Evidence, ...]) -> list[str]:
    return [str(item.data.get("event", item.kind)) for item in items]


def test_a_plain_log_is_one_life_with_sources_and_stamps() -> None:
    reading = read([*START, *task(0.02, 0), *enter(2.0)])
    assert [life.index for life in reading.lives] == [0]
    assert reading.evidence[0].source == "server.log:1"
    assert reading.evidence[-1].elapsed == 2.0002
    assert all(item.trust is Trust.SERVER for item in reading.evidence)
    assert (reading.era, reading.process_starts, reading.lines, reading.gaps) == ("F5", 1, 13, ())
    assert reading.lives[0].verbosity == 3


def test_a_restart_begins_a_new_life() -> None:
    reading = read([*START, *enter(2.0), *START, *task(1.0, 0)])
    assert [events(life.evidence).count("enter-sleep") for life in reading.lives] == [2, 0]
    assert reading.process_starts == 2


def test_a_fall_of_the_stamp_without_a_start_line_begins_a_new_life() -> None:
    reading = read([*enter(500.0), *task(3.0, 1), *enter(5.0)])
    assert len(reading.lives) == 2
    assert [life.head_lost for life in reading.lives] == [True, True]
    assert any("beginning" in gap.what for gap in reading.gaps)


def test_eras_without_stamps_split_at_the_build_line() -> None:
    old = ["build: 4589 (eb7cf15a) with cc", "main: loading model", "main: model loaded"]
    reading = read([*old, "srv  update_slots: all slots are idle", *old])
    assert len(reading.lives) == 2
    assert reading.era == "F3"


def test_a_new_pid_in_the_prefix_begins_a_new_life() -> None:
    first = [f"Dec 02 00:31:05 host llama[1]: {line}" for line in enter(2.0)]
    second = [f"Dec 02 00:31:09 host llama[2]: {line}" for line in enter(3.0)]
    reading = read([*first, *second])
    assert [life.incarnation.pid for life in reading.lives] == [1, 2]
    assert not any(life.restarted_in_place for life in reading.lives)


def test_the_same_pid_starting_again_is_a_restart_in_place() -> None:
    lines = [f"Dec 02 00:31:05 host llama[1]: {line}" for line in [*START, *enter(2.0), *START]]
    assert [life.restarted_in_place for life in read(lines).lives] == [False, True]


def test_router_children_are_lives_of_their_own() -> None:
    lines = []
    for one, two in zip([*START, *enter(2.0)], [*START, *task(2.0, 1)], strict=False):
        lines += [f"[ 8081] {one}", f"[ 8082] {two}", "[ 8082] "]
    lines.append("3.00.000.000 I srv           run: instance name=tiny exited with status 1")
    reading = read(lines)
    assert {life.port for life in reading.lives} == {"8081", "8082"}
    assert events(reading.outside) == ["exit"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_ends_colours_and_damage_change_nothing(ending: str) -> None:
    lines = [*START, *enter(2.0)]
    data = (
        ending.join([*lines, ""]).replace(" I ", " \x1b[32mI \x1b[0m").encode() + b"\xff\xfe\x00broken \xc3\n"
    )
    assert events(read_text(io.BytesIO(data), "x").evidence) == events(read(lines).evidence)


@pytest.mark.parametrize("seekable", [True, False])
def test_reversed_text_is_put_right(tmp_path: Path, seekable: bool) -> None:
    lines = [*START, *(line for n in range(2000) for line in task(1 + n, n)), *enter(9000.0)]
    data = ("\n".join(reversed(lines)) + "\n").encode()
    path = tmp_path / "r.log"
    path.write_bytes(data)
    source = path if seekable else Pipe(data)
    reading = read_text(source, "r.log")
    assert reading.reversed
    assert reading.process_starts == 1
    assert [len(reading.lives), reading.lives[0].counts["task-done"]] == [1, 2000]
    assert events(reading.evidence)[0] == events(reading.lives[0].evidence)[0] == "init"
    assert events(reading.lives[0].evidence)[-2:] == ["enter-sleep", "enter-sleep"]
    assert {e.source for e in reading.evidence if e.data["event"] == "enter-sleep"} == {"r.log:1", "r.log:2"}
    assert reading.lines == len(lines)


class Pipe(io.RawIOBase):
    """A stream that cannot seek and returns short reads."""

    def __init__(self, data: bytes) -> None:
        self._rest = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._rest.read(min(size, 60000) if size >= 0 else 60000)


def test_a_restarting_log_is_not_taken_for_reversed() -> None:
    assert not read([*START, *enter(2.0)] * 5).reversed


def test_short_reads_and_block_borders_lose_nothing() -> None:
    lines = [*START, *(line for n in range(9000) for line in task(1 + n, n))]
    reading = read_text(Pipe("\n".join(lines).encode()), "p")
    assert reading.lives[0].counts["task-launched"] == 9000
    assert reading.lines == len(lines)


def test_events_are_bounded_and_the_rest_is_counted() -> None:
    cycles = [line for n in range(500) for line in (*enter(10.0 * n + 5), *wake(10.0 * n + 8))]
    reading = read([*START, *cycles])
    life = reading.lives[0]
    assert life.counts["enter-sleep"] == 1000
    assert len(life.evidence) <= 3 * (FIRST_KEPT + LAST_KEPT)
    assert life.skipped == sum(life.counts.values()) - len(life.evidence)
    assert any(gap.what == "events in the middle" for gap in reading.gaps)
    assert all(item.trust is Trust.SERVER for item in life.evidence)


def test_dense_logs_end_the_same_as_read_line_by_line() -> None:
    """The quick way over settled blocks must agree with the careful one."""
    body = [
        line
        for n in range(4000)
        for line in (*enter(10.0 * n + 5), *wake(10.0 * n + 8), *task(10.0 * n + 8.1, n))
    ]
    quick = read([*START, *body]).lives[0]
    careful = read([f"c | {line}" for line in [*START, *body]]).lives[0]
    assert dict(quick.counts) == dict(careful.counts)
    assert [item.text for item in quick.evidence] == [item.text for item in careful.evidence]
    assert [item.source for item in quick.evidence] == [item.source for item in careful.evidence]


def test_interleaved_instances_of_one_unit_stay_apart() -> None:
    lines = []
    for one, two in zip([*START, *enter(2.0)], [*START, *task(2.0, 1)], strict=False):
        lines += [f"Dec 02 00:31:05 host llama[1]: {one}", f"Dec 02 00:31:05 host llama[2]: {two}"]
    reading = read(lines)
    assert [(life.incarnation.pid, life.restarted_in_place) for life in reading.lives] == [
        (1, False),
        (2, False),
    ]


def test_the_quick_way_sees_a_second_stream() -> None:
    one = [f"a-1  | {line}" for n in range(5000) for line in task(1.0 + n, n)]
    two = [f"b-2  | {line}" for line in enter(9000.0)]
    reading = read([*(f"a-1  | {line}" for line in START), *one[:9000], *two, *one[9000:]])
    assert [life.stream for life in reading.lives] == ["a-1", "b-2"]
    assert [life.counts.get("task-done", 0) for life in reading.lives] == [5000, 0]


def test_many_lives_are_bounded() -> None:
    reading = read([*START, *enter(2.0)] * 300)
    assert len(reading.lives) == LIVES_KEPT_FIRST + LIVES_KEPT_LAST
    assert reading.process_starts == 300
    assert reading.lives[-1].first_line == 299 * 10 + 1
    assert any(gap.what == "some process lives" for gap in reading.gaps)


def test_cancelled_while_asleep_survives_a_long_log() -> None:
    cancelled = f"{stamp(12.0)} W srv          stop: cancel task, id_task = 77"
    cycles = [line for n in range(300) for line in (*enter(100.0 * n + 105), *wake(100.0 * n + 180))]
    life = read([*START, *enter(10.0), cancelled, *wake(20.0), *cycles]).lives[0]
    assert life.cancelled_asleep == 1
    assert "task-cancelled" in events(life.evidence)


class Zeros(io.RawIOBase):
    """A single line of ``size`` bytes between two real ones, made while it is read."""

    def __init__(self, size: int) -> None:
        self._parts = [("\n".join(START) + "\n").encode(), *[b"x" * 65536] * (size // 65536)]
        self._parts.append(("\n" + "\n".join(enter(2.0)) + "\n").encode())

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._parts.pop(0) if self._parts else b""


def test_a_line_of_a_hundred_megabytes_costs_no_memory() -> None:
    tracemalloc.start()
    reading = read_text(Zeros(100 << 20), "long")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    assert events(reading.evidence)[-1] == "enter-sleep"
    assert any("long lines" in gap.what for gap in reading.gaps)
    assert reading.evidence[-1].source == "long:11"


def test_a_pager_that_cut_the_lines_is_named() -> None:
    cut = [
        line[:70] + ">" if len(line) > 71 else line
        for line in [*START, *task(1, 1), *task(2, 2), *enter(9.0)]
    ]
    reading = read(cut)
    assert any(gap.what == "ends of lines" for gap in reading.gaps)
    assert "enter-sleep" in events(reading.evidence)


def test_low_verbosity_is_a_gap() -> None:
    lines = [line.replace("verbosity = 3", "verbosity = 2") for line in START]
    assert any(gap.what == "sleep lines" for gap in read(lines).gaps)


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n\n", b"no newline", b"\x00" * 5000, b"\xff" * 70000])
def test_nothing_telling_is_an_empty_reading(data: bytes) -> None:
    reading = read_text(io.BytesIO(data), "x")
    assert (reading.evidence, reading.lives) == ((), ())
    assert reading.bytes == len(data)


def test_a_missing_file_and_a_folder_are_one_clear_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            read_text(path)


def test_the_input_name_cannot_bring_control_characters() -> None:
    assert read([*START], "a\x1b[2Jb").evidence[0].source == "a\\x1b[2Jb:1"


def test_a_kernel_log_is_kernel_set_with_its_clock() -> None:
    line = "[  206.056656] traps: python[3260] general protection fault ip:7f sp:7e error:0 in x.so[1,2+3]"
    reading = read(["[    0.000000] Linux version 6.18", line])
    assert reading.kind == "kernel"
    assert (reading.outside[0].trust, reading.outside[0].mono) == (Trust.KERNEL, 206.056656)


# Forged and contradictory lines


def trust_of(reading: Reading, text: str) -> set[Trust]:
    return {item.trust for item in reading.evidence if text in item.text}


def test_an_entering_line_without_its_twin_is_client_controllable() -> None:
    forged = f"{stamp(5.0)} I que    start_loop: entering sleeping state"
    reading = read([*START, *task(2.0, 1), forged, *task(6.0, 2)])
    assert trust_of(reading, "entering") == {Trust.CLIENT}


def test_an_entering_line_right_after_work_is_client_controllable() -> None:
    reading = read([*START, *task(2.0, 1), *enter(2.1), *task(2.2, 2)])
    assert trust_of(reading, "entering") == {Trust.CLIENT}


def test_an_entering_line_with_a_stamp_out_of_order_is_client_controllable() -> None:
    reading = read([*START, *task(2.0, 1), *enter(900.0), *task(6.0, 2), *task(7.0, 3)])
    assert trust_of(reading, "entering") == {Trust.CLIENT}
    assert trust_of(reading, "release") == {Trust.SERVER}


def test_an_entering_line_without_a_stamp_in_a_stamped_log_is_client_controllable() -> None:
    reading = read([*START, "que    start_loop: entering sleeping state", *task(6.0, 2)])
    assert trust_of(reading, "entering") == {Trust.CLIENT}


def test_a_lost_tail_leaves_the_last_entering_line_trusted() -> None:
    assert trust_of(read([*START, *task(2.0, 1), enter(4.0)[0]]), "entering") == {Trust.SERVER}


def test_an_abort_text_the_process_outlived_is_client_controllable() -> None:
    abort = "/w/ggml/src/ggml.c:12: GGML_ASSERT(a) failed"
    assert trust_of(read([*START, *task(2.0, 1), abort]), "GGML_ASSERT") == {Trust.SERVER}
    assert trust_of(read([*START, *task(2.0, 1), abort, *task(900.0, 2)]), "GGML_ASSERT") == {Trust.CLIENT}
