"""Texts that lie, that are damaged, or that have one line of 100 MB."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_journal import FORMS, as_json, core_record, export, kernel, message, output
from bad_material import ASLEEP, FAULT, REQUEST, START, put
from bad_run import PATIENCE, UNDECIDED, UNUSABLE, VERDICT, judged, quick, refused, triage, untouched

QUEUE = "que    start_loop: entering sleeping state"
CONTEXT = "srv  handle_sleep: server is entering sleeping state"
LAUNCHED, *REST = REQUEST.splitlines(keepends=True)
FORGED = {
    "JSON body": '0.05.150.000 D srv  log_server_r: request: {"prompt":"\\n0.15.400.000 I '
    + f'{QUEUE}\\n0.15.400.200 I {CONTEXT}\\n"}}\n',
    "response body": f'0.05.150.000 D srv  log_server_r: response: {{"content":"{QUEUE}"}}\n',
    "access line": f"0.05.150.000 I srv  log_server_r: done request: GET /{QUEUE} 127.0.0.1 404\n",
    "access query": "0.05.150.000 I srv  log_server_r: done request: GET /x?entering+sleeping+state "
    "127.0.0.1 404\n",
    "prompt on a slot's line": "0.05.150.000 D slot update_slots: id  0 | task 7 | prompt: 0.15.400.000 I "
    f"{QUEUE}\n",
    "generated text": f"0.05.150.000 D slot process_toke: id  0 | task 7 | next token: '{QUEUE}'\n",
    "lines of a prompt, from the future": f"0.05.150.000 D srv  operator(): hello\n0.15.400.000 I {QUEUE}\n"
    f"0.15.400.200 I {CONTEXT}\n",
    "lines of a prompt, right away": f"0.05.150.100 I {QUEUE}\n0.05.150.200 I {CONTEXT}\n",
    "lines of a prompt, without stamps": f"{QUEUE}\n{CONTEXT}\n",
    "one line of a prompt": f"0.05.150.100 I {QUEUE}\n",
    "another era's line": "INFO [                  start_loop] entering sleeping state | tid=1 timestamp=1\n",
    "another form's line": f'{{"type":"log","time":15400000,"level":"info","msg":"{QUEUE}"}}\n',
    "a container's line": f'{{"log":"prompt: {QUEUE}\\n","stream":"stdout"}}\n',
}


def not_blamed_on_sleep(report: dict) -> None:
    verdict = report["verdict"]
    assert verdict["class"] == "SEGV"
    assert (verdict["cause"], verdict["defect"]) == ("unknown", None)
    assert verdict["phase"] in ("awake", "unknown")
    assert not [item for item in verdict["evidence"] if "sleeping" in item["text"]]


def crashed(tmp_path: Path, log: str) -> dict:
    server, kern = put(tmp_path / "server.log", log), put(tmp_path / "kern.log", FAULT)
    with untouched(server, kern):
        return judged(quick(server, kern))


def test_a_real_sleep_before_the_same_fault_is_blamed(tmp_path: Path) -> None:
    verdict = crashed(tmp_path, START + REQUEST + ASLEEP)["verdict"]
    assert (verdict["class"], verdict["cause"], verdict["confidence"]) == ("SEGV-UAF-SLEEP", "sleep", "weak")


PERFECT = "lines of a prompt, from the future"  # behind the last line: in every byte what a server prints
DURING, AFTER = "while the request runs", "after it"
PLACES = [(name, place) for name in FORGED for place in (DURING, AFTER) if (name, place) != (PERFECT, AFTER)]


@pytest.mark.parametrize(("name", "place"), PLACES)
def test_a_forged_sleep_is_never_blamed(tmp_path: Path, name: str, place: str) -> None:
    forged = FORGED[name]
    log = LAUNCHED + forged + "".join(REST) if place == DURING else REQUEST + forged
    not_blamed_on_sleep(crashed(tmp_path, START + log))


def test_a_perfect_forgery_is_at_most_a_weak_hint(tmp_path: Path) -> None:
    forged = FORGED[PERFECT]
    verdict = crashed(tmp_path, START + REQUEST + forged)["verdict"]
    assert verdict["confidence"] == "weak"


@pytest.mark.parametrize("form", FORMS)
def test_a_journal_tells_processes_apart(tmp_path: Path, form: str) -> None:
    # GIVEN a server that died awake, and another process of its unit that prints sleep lines
    entries = [*output(START + REQUEST), *output(ASLEEP, pid=99, at=300), kernel()]
    path = put(tmp_path / "j", FORMS[form](entries))
    with untouched(path):
        not_blamed_on_sleep(judged(quick(path)))
    # WHEN the same lines are its own THEN they count
    path = put(tmp_path / "own", FORMS[form]([*output(START + REQUEST), *output(ASLEEP, at=300), kernel()]))
    assert judged(quick(path))["verdict"]["cause"] == "sleep"


FAKE_FIELDS = "hello\n_PID=4242\n_TRANSPORT=kernel\nMESSAGE=0.15.400.000 I " + QUEUE + "\n\n"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "entry",
    [
        message(FAULT.strip(), 300),
        message(FAULT.split("] ", 1)[1].strip(), 300, _TRANSPORT="syslog", SYSLOG_IDENTIFIER="kernel"),
        core_record(300, _UID="990", _COMM="python3", _EXE="/usr/bin/python3", _SYSTEMD_UNIT="llama.service"),
        message(
            "llama.service: Main process exited, code=dumped, status=11/SEGV",
            300,
            SYSLOG_IDENTIFIER="systemd",
        ),
        message(FAKE_FIELDS, 300),
        message(b"\xff\x00" + FAKE_FIELDS.encode(), 300),
    ],
    ids=[
        "kernel line printed",
        "kernel line by syslog",
        "core record",
        "systemd line",
        "fields in text",
        "in bytes",
    ],
)
def test_forged_journal_entries_make_no_crash(tmp_path: Path, form: str, entry: dict) -> None:
    path = put(tmp_path / "j", FORMS[form]([*output(START + REQUEST), entry]))
    with untouched(path):
        verdict = judged(quick(path))["verdict"]
    assert not verdict["class"].startswith("SEGV")
    assert verdict["cause"] not in ("sleep", "wake")


def test_a_true_core_record_is_believed(tmp_path: Path) -> None:
    path = put(tmp_path / "j", export([*output(START + REQUEST), core_record()]))
    assert judged(quick(path))["process"]["signal"] == "SIGSEGV"


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Cut somewhere, with some bytes flipped."""
    broken = bytearray(data[: dice.randrange(1, len(data))])
    for _ in range(dice.choice((0, 1, 9))):
        broken[dice.randrange(len(broken))] = dice.randrange(256)
    return bytes(broken)


def check_damaged(tmp_path: Path, make: Callable[..., bytes], seed: int, rounds: int) -> None:
    whole = make([*output(START + REQUEST + ASLEEP), message(b"\xff\n\x00", 299), kernel(), core_record()])
    dice = random.Random(seed)
    for _ in range(rounds):
        path = put(tmp_path / "j", damaged(whole, dice))
        with untouched(path):
            outcome = quick(path)
        if outcome.status == UNUSABLE:
            refused(outcome, str(path))
        else:
            judged(outcome)


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_journal_is_read_as_far_as_it_goes(tmp_path: Path, form: str) -> None:
    check_damaged(tmp_path, FORMS[form], 11, 12)


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_three_hundred_damaged_journals(tmp_path: Path, form: str) -> None:
    check_damaged(tmp_path, FORMS[form], 12, 300)


@pytest.mark.parametrize(
    "data",
    [
        b"__CURSOR=x\nMESSAGE\n" + b"\xff" * 8 + b"short",
        b"__CURSOR=x\nMESSAGE\n" + (1 << 33).to_bytes(8, "little") + b"short\n\n",
        b'{"__CURSOR":"x","MESSAGE":' + b"[" * 100_000,
        b'{"__CURSOR":"x","MESSAGE":' + b'{"a":' * 100_000,
        b'{"__CURSOR":"x","MESSAGE":null,"_PID":1e999,"_BOOT_ID":[300,-1,"x"]}\n',
        b'{"__CURSOR":"x","MESSAGE":[1,2,[3]],"_PID":{"a":1},"__MONOTONIC_TIMESTAMP":"'
        + b"9" * 5000
        + b'"}\n',
    ],
    ids=["negative length", "8 GB length", "nested arrays", "nested objects", "odd values", "odd types"],
)
def test_journal_fields_of_nonsense(tmp_path: Path, data: bytes) -> None:
    path = put(tmp_path / "j", data)
    with untouched(path):
        judged(quick(path))


LONG_LINE = 100 << 20
BOUND_MB = 400  # measured 46 to 80 MB, of which the libraries are 45; a copy of the line would be 100 more
HEADS = {
    "nothing": b"",
    "server": b"0.00.004.097 I srv          init: ",
    "JSON journal": b'{"__CURSOR":"x","MESSAGE":"',
    "export": b"__CURSOR=x\n__REALTIME_TIMESTAMP=1\n_PID=3\nMESSAGE=",
    "trace": b"#0  0x00007f0000001234 in f ()\n#1  0x00007f0000001234 in ",
    "kernel": b"[    1.000000] ",
    "brackets": b"",
    "escapes": b"",
}
FILLING = {"brackets": b'[{"a":', "escapes": b"\x1b[", "NUL": b"\0"}
GATED = ("server", "JSON journal")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in GATED else pytest.mark.full) for name in HEADS]
)
def test_a_line_of_100_mb_is_read_in_bounded_memory(tmp_path: Path, name: str) -> None:
    path, peak = tmp_path / "long", tmp_path / "peak"
    piece = FILLING.get(name, b"x")
    with path.open("wb") as file:
        file.write(HEADS[name])
        for _ in range(LONG_LINE >> 20):
            file.write(piece * ((1 << 20) // len(piece)))
        file.write(b"\n")
    script = Path(__file__).with_name("bad_peak.py")
    with untouched(path):
        done = subprocess.run(
            [sys.executable, str(script), str(peak), "--json", str(path)],
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode in (VERDICT, UNDECIDED), done.stderr
    assert int(peak.read_text()) / 1024 < BOUND_MB
    path.unlink()


def test_a_pasted_trace_of_nonsense_is_undecided(tmp_path: Path) -> None:
    lines = [f"#{number} 0x{number:016x} in \x1b[2J{'x' * 50}{number} (" for number in range(3000)]
    path = put(tmp_path / "trace.txt", "\n".join([*lines, "#0", "#1 ", "#99999999999999999999 0x0 in x ()"]))
    with untouched(path):
        judged(triage("--json", path))


def test_one_journal_line_is_enough_to_see_its_kind(tmp_path: Path) -> None:
    path = put(tmp_path / "j", as_json([kernel()]))
    assert judged(quick(path))["inputs"][0]["kind"] == "journal-json"
