"""Journal exports: trusted fields, forged records, binary and oversized fields, both forms alike."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.logs.entries import FIELD_KEPT
from analyzers.logs.journal import read_export, read_json
from analyzers.logs.journal_lives import COREDUMP_MESSAGE
from analyzers.logs.looks import looks_like_export, looks_like_json
from analyzers.logs.reading import Reading

BOOT = "0" * 31 + "1"
ENTER = "0.05.000.000 I que    start_loop: entering sleeping state"
TWIN = "0.05.000.200 I srv  handle_sleep: server is entering sleeping state"

Fields = dict[str, "str | bytes"]


def message(text: str | bytes, pid: int = 10, at: int = 5_000_000, **more: str | bytes) -> Fields:
    return {
        "__CURSOR": "s=1",
        "__REALTIME_TIMESTAMP": str(1_764_635_465_000_000 + at),
        "__MONOTONIC_TIMESTAMP": str(at),
        "_BOOT_ID": BOOT,
        "_PID": str(pid),
        "_UID": "1000",
        "_TRANSPORT": "stdout",
        "_SYSTEMD_UNIT": "llama.service",
        "_COMM": "llama-server",
        "MESSAGE": text,
        **more,
    }


def core(**more: str | bytes) -> Fields:
    fields = message(
        "Process 10 (llama-server) of user 1000 dumped core.",
        pid=900,
        _UID="0",
        _TRANSPORT="journal",
        _SYSTEMD_UNIT="systemd-coredump@1-900-0.service",
        _COMM="systemd-coredum",
        _EXE="/usr/lib/systemd/systemd-coredump",
        MESSAGE_ID=COREDUMP_MESSAGE,
        COREDUMP_PID="10",
        COREDUMP_SIGNAL="11",
        COREDUMP_COMM="llama-server",
        COREDUMP_UNIT="llama.service",
        COREDUMP_ENVIRON=b"LLAMA_API_KEY=sk-SECRET\nPATH=/bin",
        COREDUMP_CMDLINE="llama-server --api-key sk-SECRET",
        COREDUMP_FILENAME="/var/lib/systemd/coredump/core.x",
    )
    return {**fields, **more}


def export(*entries: Fields) -> bytes:
    return b"\n".join(b"".join(export_field(k, v) for k, v in entry.items()) for entry in entries) + b"\n"


def export_field(name: str, value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    if b"\n" in raw or isinstance(value, bytes):
        return name.encode() + b"\n" + len(raw).to_bytes(8, "little") + raw + b"\n"
    return name.encode() + b"=" + raw + b"\n"


def as_json(*entries: Fields) -> bytes:
    def value(field: str | bytes) -> object:
        return list(field) if isinstance(field, bytes) else field

    rows = [json.dumps({k: value(v) for k, v in entry.items()}) for entry in entries]
    return ("\n".join(rows) + "\n").encode()


def both(*entries: Fields) -> list[Reading]:
    return [read_export(io.BytesIO(export(*entries)), "j"), read_json(io.BytesIO(as_json(*entries)), "j")]


def test_messages_carry_the_incarnation_and_both_clocks() -> None:
    for reading in both(message(ENTER), message(TWIN)):
        first = reading.evidence[0]
        assert (first.incarnation.pid, first.incarnation.boot_id) == (10, BOOT)
        assert (first.wall, first.mono, first.elapsed) == (1_764_635_470.0, 5.0, 5.0)
        assert (first.source, first.trust) == ("j:1", Trust.SERVER)
        assert [life.stream for life in reading.lives] == ["llama.service"]


def test_lives_are_split_by_pid_and_boot_even_when_interleaved() -> None:
    for reading in both(
        message(ENTER, 10), message(ENTER, 11), message(TWIN, 10), message(TWIN, 11, _BOOT_ID="2" * 32)
    ):
        assert [len(life.evidence) for life in reading.lives] == [2, 1, 1]


def test_another_process_cannot_put_a_line_into_the_servers_life() -> None:
    forged = message(
        ENTER, 666, _COMM="python3", _SYSTEMD_UNIT="user@1000.service", SYSLOG_IDENTIFIER="llama-server"
    )
    for reading in both(message("0.00.016.641 I srv          init: model loaded", 10), forged):
        server = next(life for life in reading.lives if life.incarnation.pid == 10)
        assert "enter-sleep" not in server.counts


def test_kernel_lines_come_from_the_kernels_transport_alone() -> None:
    line = "python[3004]: segfault at 170 ip 0000000000000001 sp 0000000000000002 error 4 in x.so[1,2+3]"
    kernel = {**message(line), "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel"}
    for reading in both(kernel, {**message(line), "SYSLOG_IDENTIFIER": "kernel"}):
        assert [item.trust for item in reading.outside] == [Trust.KERNEL]
        assert ["not from it" in gap.why for gap in reading.gaps] == [True]
        assert reading.outside[0].mono == 5.0


def test_systemd_lines_come_from_pid_1() -> None:
    line = "Main process exited, code=dumped, status=11/SEGV"
    real = message(line, 1, _UID="0", _COMM="systemd", _TRANSPORT="journal", UNIT="llama.service")
    for reading in both(real, message(line, 77, _COMM="systemd", UNIT="llama.service")):
        assert [item.trust for item in reading.outside] == [Trust.SUPERVISOR, Trust.CLIENT]
        assert reading.outside[0].data["unit"] == "llama.service"


def test_a_core_record_names_the_dead_process_and_keeps_no_secret() -> None:
    for reading in both(core()):
        (record,) = reading.outside
        assert (record.kind, record.data["signal"], record.data["result"]) == ("exit", 11, "core-dump")
        assert (record.incarnation.pid, record.trust) == (10, Trust.SUPERVISOR)
        assert record.text == "core record: llama-server pid 10, signal 11, core kept"
        assert "SECRET" not in repr(reading)


@pytest.mark.parametrize(
    "forgery",
    [
        {"_UID": "1000"},
        {"_SYSTEMD_UNIT": "session-1.scope", "_COMM": "logger", "_EXE": "/usr/bin/logger"},
        {"_SYSTEMD_UNIT": "session-1.scope", "_EXE": "/tmp/systemd-coredump"},
        {"_TRANSPORT": "syslog"},
    ],
)
def test_forged_core_records_are_left_out_and_counted(forgery: dict[str, str]) -> None:
    for reading in both(core(**forgery)):
        assert reading.evidence == ()
        assert [gap.what for gap in reading.gaps] == ["core records"]


def test_a_container_behind_its_engine_has_no_pid_of_its_own() -> None:
    start = "0.00.000.400 I srv          init: initializing ..."
    lines = [message(line, 5, _COMM="dockerd", CONTAINER_NAME="llm") for line in (start, ENTER, TWIN, start)]
    for reading in both(*lines):
        assert [life.stream for life in reading.lives] == ["llm", "llm"]
        assert {life.incarnation.pid for life in reading.lives} == {None}


def test_binary_multi_line_and_oversized_fields() -> None:
    text = (ENTER + "\n" + TWIN).encode()
    blob = b"\xff\x00" * FIELD_KEPT
    for reading in both(message(text, OTHER=blob), message(TWIN, 11)):
        assert [item.data["event"] for item in reading.evidence] == ["enter-sleep"] * 3


def test_nulls_of_the_json_form_are_a_gap() -> None:
    row = json.dumps({**message("x"), "MESSAGE": None}).encode() + b"\n"
    assert [gap.what for gap in read_json(io.BytesIO(row), "j").gaps] == ["ends of long messages"]


def test_pretty_printed_json_is_read() -> None:
    text = (
        json.dumps(message(ENTER), indent="\t").encode()
        + b"\n"
        + json.dumps(message(TWIN), indent="\t").encode()
    )
    assert len(read_json(io.BytesIO(text), "j").evidence) == 2


@pytest.mark.parametrize(
    "damage",
    [
        b"{broken\n",
        b"\xff\xfe\n",
        b"[" * 5000 + b"\n",
        b'{"MESSAGE": 5}\n',
        b"NAME\n\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_damage_costs_only_its_entry(damage: bytes) -> None:
    after = read_json(io.BytesIO(damage + as_json(message(ENTER))), "j")
    assert len(after.evidence) == 1 or damage.startswith(b"NAME")
    before = read_export(io.BytesIO(export(message(ENTER)) + b"\n" + damage), "j")
    assert len(before.evidence) == 1


def test_a_field_of_megabytes_costs_little_memory() -> None:
    big = export(message(ENTER, HUGE=b"x" * (64 << 20)), message(TWIN))
    tracemalloc.start()
    reading = read_export(io.BytesIO(big), "j")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(reading.evidence) == 2
    assert peak < 16 << 20


def test_the_forms_are_told_apart_by_their_first_bytes() -> None:
    assert looks_like_export(export(message(ENTER)))
    assert not looks_like_json(export(message(ENTER)))
    assert looks_like_json(as_json(message(ENTER)))
    assert not looks_like_export(as_json(message(ENTER)))


def test_ids_are_unique_when_one_entry_holds_several_lines() -> None:
    for reading in both(message(ENTER + "\nSegmentation fault (core dumped)\n" + TWIN + "\nKilled")):
        assert len({item.id for item in reading.evidence}) == len(reading.evidence) == 4
