"""The line grammar: what is a line of the server and what only looks like one."""

from __future__ import annotations

import json

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import AbortFact, LogFact
from analyzers.logs.looks import looks_like_log
from analyzers.logs.prefix import strip
from analyzers.logs.recognise import Found, form_of, recognise, safe_text
from analyzers.logs.telling import NEEDLES, phrases_regex

ENTER = "que    start_loop: entering sleeping state"


def event_of(line: str, form: str | None = None) -> str | None:
    found = recognise(line.encode(), form)
    return found.fact.event if found is not None and isinstance(found.fact, LogFact) else None


def found_of(line: str) -> Found:
    found = recognise(line.encode())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "event", "era"),
    [
        ("121.57.649.356 I " + ENTER, "enter-sleep", "F4"),
        ("0.01.284.001 I srv  handle_sleep: server is exiting sleeping state", "exit-sleep", "F4"),
        (ENTER, "enter-sleep", "F3"),
        (
            "0.00.002.646 I cmn  common_param: common_params_print_info: verbosity = 3 (x)",
            "settings",
            "F5",
        ),
        ('{"type":"log","time":1059063,"level":"info","msg":"' + ENTER + '\\n"}', "enter-sleep", "F6"),
        (
            'INFO [            update_slots] all slots are idle | tid="1" timestamp=1724599956',
            "slots-idle",
            "F2",
        ),
        (
            'INFO [  launch_slot_with_task] slot is processing task | tid="1" id_task=5',
            "task-launched",
            "F2",
        ),
        (
            '{"tid":"1","timestamp":1724599956,"level":"INFO","function":"main","msg":"model loaded"}',
            "loaded",
            "F2",
        ),
        (
            '{"timestamp":1707000000,"level":"INFO","function":"main","line":5,"message":"build info",'
            '"build":2050,"commit":"19122117"}',
            "build-info",
            "F1",
        ),
        ("build: 4589 (eb7cf15a) with cc (Debian 12.2.0-14) 12.2.0 for x86_64-linux-gnu", "build-info", "F3"),
        ("version: 10293 (a1f96d4fc)", "build-info", "F3"),
        ("version: 0.1.0-dev (build 10454, commit 4df29be4f)", "build-info", "F3"),
        ("main: server is listening on http://127.0.0.1:8080 - starting the main loop", "listening", "F3"),
        ("0.00.003.883 I srv          init: loading model", "loading", "F4"),
        ("0.00.1", None, None),
    ],
)
def test_every_era_yields_its_event(line: str, event: str | None, era: str | None) -> None:
    found = recognise(line.encode())
    assert event_of(line) == event
    if found is not None and isinstance(found.fact, LogFact):
        assert found.fact.era == era


@pytest.mark.parametrize(
    "line",
    [
        'srv  log_server_r: request:  {"prompt": "0.00.000.001 I ' + ENTER + '"}',
        '{"type":"log","time":1,"level":"info","msg":"srv  log_server_r: request: ' + ENTER + '\\n"}',
        '{"type":"log","time":1,"level":"info","msg":"note","prompt":"' + ENTER + '\\n"}',
        '{"role":"user","content":"' + ENTER + '"}',
        "1.00.000.000 I que  process_new_: entering sleeping state",
        "1.00.000.000 I srv    start_loop: entering sleeping state",
        "1.00.000.000 W que    start_loop: entering sleeping state",
        "1.00.000.000 I que    start_loop: entering sleeping state now",
        "1.00.000.000 I que    start_loop: I said entering sleeping state",
        "1.00.000.000 I slot  handle_sleep: server is entering sleeping state",
        "user: " + ENTER,
        'INFO [ request] GET /x | q="' + ENTER + '"',
    ],
)
def test_the_phrase_elsewhere_is_no_sleep_event(line: str) -> None:
    assert event_of(line) not in ("enter-sleep", "exit-sleep")


@pytest.mark.parametrize(
    ("prefix", "form"),
    [
        ("Dec 02 00:31:05 host llama-server[123]: ", "syslog"),
        ("déc. 02 00:31:05 host llama-server[123]: ", "syslog"),
        ("12月 02 00:31:05 host llama-server[123]: ", "syslog"),
        ("2025-12-02T00:31:05+0100 host llama-server[123]: ", "syslog"),
        ("2025-12-02T00:31:05.123456+01:00 host llama-server[123]: ", "syslog"),
        ("[  206.056656] host llama-server[123]: ", "syslog"),
        ("1764635465.123456 host llama-server[123]: ", "syslog"),
        ("Dec 02 00:31:05 llama-server[123]: ", "syslog"),
        ("llama-1  | ", "compose"),
        ("llama-1  | 2025-12-02T00:31:05.123456789Z ", "compose"),
        ("2025-12-02T00:31:05.123456789Z ", "stamped"),
        ("2025-12-02T00:31:05.1Z stderr F ", "stamped"),
        ("[pod/llama-0/server] ", "kubectl"),
        ("[ 8080] ", None),
        ("[51234] ", None),
    ],
)
def test_wrappers_are_peeled_off(prefix: str, form: str | None) -> None:
    line = f"{prefix}0.01.059.063 I {ENTER}"
    assert event_of(line) == "enter-sleep"
    assert strip(line)[0].form == form


def test_a_stamp_before_the_servers_own_words_is_no_syslog() -> None:
    for line in ("que start_loop: entering sleeping state", "main: loading model", "I que start_loop: x"):
        assert strip(f"2025-12-02T00:31:05Z {line}")[0].form == "stamped"


def test_router_port_pid_and_wall_clock_are_read() -> None:
    assert strip("[ 8080] 0.01.0")[0].port == "8080"
    assert strip("Dec 02 00:31:05 host unit[77]: x")[0].pid == 77
    assert strip("2025-12-02T00:00:00+01:00 host unit[77]: x")[0].wall == 1764630000.0
    assert strip("Dec 02 00:31:05 host unit[77]: x")[0].wall is None


def test_docker_json_file_lines_are_unwrapped() -> None:
    line = '{"log":"0.01.059.063 I ' + ENTER + '\\n","stream":"stderr","time":"2025-12-02T00:31:05.5Z"}'
    found = found_of(line)
    assert isinstance(found.fact, LogFact)
    assert found.fact.event == "enter-sleep"
    assert found.wall == 1764635465.5


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[34m0.01.059.063\x1b[0m \x1b[32mI \x1b[0m" + ENTER + "\r",
        "0.01.059.063 I " + ENTER + "\x00",
        "0.01.059.063 I que start_loop: entering sleeping state",
    ],
)
def test_colours_carriage_returns_nul_and_collapsed_blanks_do_not_matter(line: str) -> None:
    assert event_of(line) == "enter-sleep"


def test_elapsed_has_unbounded_minutes() -> None:
    assert found_of("121.57.649.356 I " + ENTER).elapsed == 121 * 60 + 57.649356
    assert (
        found_of('{"type":"log","time":61000001,"level":"info","msg":"' + ENTER + '\\n"}').elapsed
        == 61.000001
    )


def test_task_ids_builds_and_models_are_read() -> None:
    launched = found_of(
        "0.00.021.011 I slot launch_slot_: id  0 | task 355 | processing task, is_child = 0"
    ).fact
    assert isinstance(launched, LogFact)
    assert (launched.event, launched.task_id) == ("task-launched", 355)
    cancelled = found_of("0.05.166.417 W srv          stop: cancel task, id_task = 201").fact
    assert isinstance(cancelled, LogFact)
    assert (cancelled.event, cancelled.task_id) == ("task-cancelled", 201)
    loading = found_of("0.00.004.896 I srv    load_model: loading model '/m/a b.gguf'").fact
    assert isinstance(loading, LogFact)
    assert loading.model == "/m/a b.gguf"


def test_client_content_never_reaches_the_evidence_text() -> None:
    request = found_of("srv  log_server_r: request: POST /sk-SECRET?key=sk-SECRET 127.0.0.1 200")
    assert "SECRET" not in safe_text(request)
    assert "SECRET" not in str(request.fact)
    error = found_of(
        'srv    operator(): got exception: {"error":{"code":500,"message":"SECRET _Map_base::at"}}'
    )
    assert safe_text(error).endswith("answered 500 (_Map_base::at)")
    what = found_of("  what():  parse error near SECRET")
    assert "SECRET" not in safe_text(what)
    assert isinstance(what.fact, AbortFact)
    assert what.fact.shape == "exception"


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("/src/ggml/src/ggml-cuda/x.cu:12: GGML_ASSERT(max_blocks_per_sm > 0) failed", "ggml-assert"),
        ("/w/tools/server/server-context.cpp:1067: failed to reload model after sleeping", "wake-reload"),
        ("/w/ggml/src/ggml.c:99: some fatal text", "ggml-abort"),
        ("/w/ggml/src/ggml-cuda/ggml-cuda.cu:109: CUDA error", "cuda"),
        ("0.10.000.000 E CUDA error: invalid argument", "cuda"),
        ("CUDA error: out of memory", "gpu-oom"),
        (
            "1.00.000.000 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 512.00 MiB on device 0: "
            "cudaMalloc failed: out of memory",
            "gpu-oom",
        ),
        ("terminate called after throwing an instance of 'std::out_of_range'", "terminate"),
        ("terminate called without an active exception", "terminate"),
        ("  what():  std::bad_alloc", "exception"),
        ("*** stack smashing detected ***: terminated", "stack-smash"),
        ("double free or corruption (!prev)", "malloc"),
        ("free(): invalid pointer", "malloc"),
        ("malloc(): unaligned tcache chunk detected", "malloc"),
        ("llama_init: failed to allocate compute pp buffers", "alloc"),
    ],
)
def test_abort_texts_by_shape(line: str, shape: str) -> None:
    fact = found_of(line).fact
    assert isinstance(fact, AbortFact)
    assert fact.shape == shape


def test_abort_site_keeps_the_file_name_and_not_the_folder() -> None:
    found = found_of("/home/me/llama.cpp/ggml/src/ggml-cuda/x.cu:12: GGML_ASSERT(a == b) failed")
    assert safe_text(found) == "x.cu:12: GGML_ASSERT(a == b) failed"


@pytest.mark.parametrize(
    "line",
    ["I think: terminate called without an active exception", "prog.cpp:3: error: no", "he said free(): x"],
)
def test_abort_words_inside_other_text_are_none(line: str) -> None:
    assert recognise(line.encode()) is None


def test_kernel_words_in_a_server_log_are_client_controllable() -> None:
    line = b"[  206.056656] python[1]: segfault at 0 ip 0000000000000001 sp 0000000000000002 error 4"
    bare, kernel = recognise(line, None), recognise(line, "dmesg")
    assert bare is not None
    assert kernel is not None
    assert bare.trust is Trust.CLIENT
    assert kernel.trust is Trust.KERNEL


def test_a_process_that_calls_itself_kernel_is_not_the_kernel() -> None:
    line = b"Dec 02 00:31:05 host kernel[99]: python[1]: segfault at 0 ip 1 sp 2 error 4"
    found = recognise(line, "syslog")
    assert found is not None
    assert found.trust is Trust.CLIENT


def test_form_needs_most_lines() -> None:
    bare = ["0.00.000.365 I srv          init: initializing ..."] * 9
    assert form_of([*bare, "Dec 02 00:31:05 host kernel: x"]) is None
    assert form_of(["Dec 02 00:31:05 host kernel: x"] * 9 + bare[:1]) == "syslog"


def test_phrases_are_one_alternation_of_all_needles() -> None:
    assert phrases_regex().count("|") == len(NEEDLES) - 1
    assert r"what\(\):" in phrases_regex()


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"0.00.000.365 I srv          init: initializing ...\n", True),
        (b"llama-1  | srv  update_slots: all slots are idle\n", True),
        (b"terminate called without an active exception\n", True),
        (b"main: model loaded\n", True),
        (b"Dear Sir: hello\nYours: me\n", False),
        (b"#0  main () at x.c:3\n", False),
        (b"[ 4646.603480] llama-server[42]: segfault at 172 ip 0172 sp 00007ffe error 14\n", False),
        (b"llama.service: Failed with result 'core-dump'.\n", False),
        (b"", False),
    ],
)
def test_a_servers_log_is_told_from_prose(head: bytes, expected: bool) -> None:
    assert looks_like_log(head) is expected


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_docker_json_written_again_by_a_program_is_unwrapped_alike(separators: tuple[str, str]) -> None:
    said = "srv  update_slots: all slots are idle"
    row = {"log": said + "\n", "stream": "stderr", "time": "2026-12-02T08:00:00Z"}
    prefix, text = strip(json.dumps(row, separators=separators))
    assert (prefix.form, text) == ("docker-json", said)


def test_reference_runs_own_clock_is_a_wrapper() -> None:
    lines = [f"20:15:0{second}.123  0.01.284.00{second} I {ENTER}" for second in range(5)]
    assert form_of(lines) == "clock"
    assert event_of(lines[0], "clock") == "enter-sleep"
    prefix, body = strip(lines[0])
    assert (prefix.wall, body) == (None, f"0.01.284.000 I {ENTER}")
    assert strip(f"20:15:00.123 {ENTER}")[0].form is None  # one blank: a client's word as likely
