"""Keys, headers and prompts planted in texts, journals, traces and a command line never reach an output."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_journal import FORMS, core_record, kernel, message, output
from bad_material import ASLEEP, FAULT, REQUEST, START, foreign_core, put
from bad_run import UNDECIDED, VERDICT, Outcome, judged, triage, untouched

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.report import Process

OUTPUTS = ("--json", "--markdown", "--html=-", "--fast")


def mark(kind: str) -> str:
    """A value of no known shape: only where it stands tells that it is secret."""
    return f"{kind}{secrets.token_hex(7)}"


KEY, ENV, HEADER, PROMPT = mark("k"), mark("e"), mark("h"), mark("p")
MARKS = (KEY, ENV, HEADER, PROMPT)

STARTED = f"""\
llama-server -m /models/m.gguf --api-key {KEY} --hf-token {KEY} --sleep-idle-seconds 10
ExecStart=/usr/bin/llama-server --api-key={KEY},{KEY}x -m /models/m.gguf
LLAMA_API_KEY={ENV}
HF_TOKEN={ENV}
Environment=LLAMA_API_KEY={ENV} HF_TOKEN={ENV}
"""
QUOTED_DIFF = f"Invalid diff: '{PROMPT}' not found at start of '{PROMPT}'"
ASKED = f'{{"prompt":"{PROMPT}","messages":[{{"role":"user","content":"{PROMPT}"}}]}}'
ERROR = "srv    operator(): got exception: "
BODIES = f"""\
0.05.110.000 D srv  log_server_r: request: {ASKED}
0.05.111.000 D srv  log_server_r: response: {{"content":"{PROMPT}"}}
0.05.112.000 D srv  operator(): Authorization: Bearer {HEADER}
0.05.113.000 D srv  operator(): X-Api-Key: {HEADER}
0.05.114.000 D srv  operator(): Cookie: session={HEADER}; other={HEADER}
0.05.115.000 D slot update_slots: id  0 | task 7 | prompt: '{PROMPT} and more'
0.05.116.000 I srv  log_server_r: done request: GET /v1/models?api_key={KEY} 127.0.0.1 200
0.05.118.000 W {ERROR}{{"error":{{"code":400,"message":"Failed to parse input at pos 3: {PROMPT}"}}}}
0.05.119.000 E {ERROR}{{"error":{{"code":500,"message":"Expected 'messages' to be an array, got {PROMPT}"}}}}
0.05.119.500 E {ERROR}{{"error":{{"code":500,"message":"{QUOTED_DIFF}"}}}}
"""
# A route is client text, too, and no verdict needs one that is not the server's own.
PATHS = f"""\
0.05.117.000 I srv  log_server_r: done request: POST /{PROMPT} 127.0.0.1 404
0.05.117.100 I srv  log_server_r: done request: GET /props?model={PROMPT} 127.0.0.1 200
"""
PARSE_ERROR = (
    "parse error at line 1, column 9: syntax error while parsing value - invalid literal; last read: "
)
WHAT = (
    "terminate called after throwing an instance of 'nlohmann::json_abi_v3_12_0::detail::parse_error'\n"
    f"  what():  [json.exception.parse_error.101] {PARSE_ERROR}'\"{PROMPT}'\n"
)
ENDS = {
    "fault": ASLEEP,
    "exception": WHAT,
    "other exception": "terminate called after throwing an instance of 'std::invalid_argument'\n"
    f"  what():  unknown word {PROMPT} in {PROMPT}\n",
    "load": f"0.06.000.000 E srv    load_model: failed to load model, 'https://u:{KEY}@host/m?token={KEY}'\n",
}
TRACE = f"""\
Thread 3 (Thread 0x7f3e00000000 (LWP 4250) "llama-server"):
#0  0x00007f3eb0222c81 in llama_vocab::impl::tokenize (this=0x1, raw_text="{PROMPT}", special=true) at v.cpp:3
#1  0x00007f3eafa792b3 in tokenize_mixed (vocab=0x2, json_prompt={{"prompt":"{PROMPT}"}}) at common.cpp:9
#2  0x00007f3eafa954cd in server_routes::handle_completions_impl (body="{PROMPT}", key="{KEY}") at s.cpp:1
#3  0x00007f3eafa954ce in run (headers="Authorization: Bearer {HEADER}", env="LLAMA_API_KEY={ENV}") at x.cpp:2
#4  0x00007f3eb14a71f5 in start_thread ()
"""


def clean(*outcomes: Outcome) -> None:
    for outcome in outcomes:
        assert outcome.status in (VERDICT, UNDECIDED), outcome
        for planted in MARKS:
            assert planted not in outcome.out
            assert planted not in outcome.err


def every_form(*paths: Path) -> Iterator[Outcome]:
    for form in OUTPUTS:
        with untouched(*paths):
            yield triage("--fast", form, *paths)


@pytest.mark.parametrize("end", ENDS)
def test_a_verbose_log_gives_nothing_away(tmp_path: Path, end: str) -> None:
    text = STARTED + START + REQUEST + BODIES + PATHS + ENDS[end]
    inputs = [put(tmp_path / "server.log", text)]
    inputs += [put(tmp_path / "kern.log", FAULT)] if end == "fault" else []
    clean(*every_form(*inputs))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", ["fault", "exception"])
def test_a_journal_gives_nothing_away(tmp_path: Path, form: str, end: str) -> None:
    private = {
        "COREDUMP_CMDLINE": f"llama-server --api-key {KEY} -p {PROMPT}",
        "COREDUMP_ENVIRON": f"LLAMA_API_KEY={ENV}\nHF_TOKEN={ENV}\n",
        "COREDUMP_OPEN_FDS": f"0:/home/{PROMPT}\n",
        "COREDUMP_PROC_MAPS": f"/home/{PROMPT}/x\n",
        "_CMDLINE": f"llama-server --api-key {KEY}",
    }
    entries = [
        *output(STARTED + START + REQUEST + BODIES),
        message(BODIES, 290, _CMDLINE=private["_CMDLINE"]),
    ]
    entries += [kernel(), core_record(**private)] if end == "fault" else output(WHAT, at=300)
    clean(*every_form(put(tmp_path / "j", FORMS[form](entries))))


@pytest.mark.parametrize("with_log", [False, True])
def test_a_pasted_trace_gives_nothing_away(tmp_path: Path, with_log: bool) -> None:
    text = (STARTED + START + REQUEST + BODIES if with_log else "") + TRACE
    inputs = [put(tmp_path / "trace.txt", text)]
    clean(*every_form(*inputs))
    assert "tokenize" in triage("--fast", "--json", *inputs).out


@pytest.mark.parametrize("archive", [False, True])
def test_a_bundle_written_of_them_holds_none(tmp_path: Path, archive: bool) -> None:
    entries = [*output(STARTED + START + BODIES), kernel(), core_record(COREDUMP_ENVIRON=f"HF_TOKEN={ENV}\n")]
    files: dict[str, bytes] = {
        "server.log": (STARTED + START + REQUEST + BODIES + WHAT).encode(),
        "server.export": FORMS["export"](entries),
        "server.json": FORMS["json"](entries),
        "trace.txt": TRACE.encode(),
        "environ": f"LLAMA_API_KEY={ENV}\0HF_TOKEN={ENV}\0PATH=/bin\0".encode(),
        "cmdline": f"llama-server\0--api-key\0{KEY}\0-p\0{PROMPT} and {PROMPT}\0".encode(),
    }
    process = Process(pid=1, args=["llama-server", "--api-key", KEY, "--system-prompt", f"{PROMPT} {PROMPT}"])
    target = tmp_path / ("b.tar.zst" if archive else "b")
    write_bundle(target, ManifestParts(created=1.0, process=process), files)
    if not archive:
        for path in target.rglob("*"):
            for planted in MARKS:
                assert planted not in path.read_text("utf-8", "surrogateescape"), path.name
    clean(*every_form(target))


@pytest.fixture(scope="module")
def argued() -> bytes:
    """The core of a process that was started with a key and a prompt as arguments."""
    crash = ("sh", "-c", "kill -11 $$", "llama-server")
    return foreign_core(*crash, "--api-key", KEY, "-p", f"{PROMPT} is")


def test_a_command_line_in_a_core_gives_nothing_away(tmp_path: Path, argued: bytes) -> None:
    core = put(tmp_path / "core", argued)
    log = put(tmp_path / "server.log", f"{START}0.05.116.000 D srv  x: key {KEY} was used\n")
    clean(*every_form(core), *every_form(core, log), triage("--json", core))


def test_with_include_private_the_command_line_is_shown(tmp_path: Path, argued: bytes) -> None:
    core = put(tmp_path / "core", argued)
    report = judged(triage("--fast", "--json", "--include-private", core))
    assert report["redaction"] == "none"
    assert KEY in report["process"]["args"]
    assert any(PROMPT in argument for argument in report["process"]["args"])
    for form in ("--html=-", "--fast"):
        assert KEY in triage("--fast", form, "--include-private", core).out
