"""Wordings that public reports show and no build here prints; each with a twin that is none of it."""

from __future__ import annotations

import pytest

from analyzers.contracts.facts import AbortFact, ExitFact, KernelFact, LogFact
from analyzers.logs.aborts import parse_abort
from analyzers.logs.prefix import strip
from analyzers.logs.recognise import recognise
from analyzers.logs.supervisor import parse_supervisor_line
from analyzers.logs.telling import NEEDLES
from analyzers.logs.timeline import timeline_of

GLIBC = "llama-server: /b/src/llama-kv.cpp:15: bool kv::next(): Assertion `status == OK' failed."
CHECKED = (
    "/usr/include/c++/16/bits/stl_vector.h:1282: T& v::operator[](unsigned): Assertion '__n < size()' failed."
)
HSA = "Memory access fault by GPU node-1 (Agent handle: 0x56) on address 0x7f1. Reason: Page not present."
METAL = "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
APPLE = "libc++abi: terminating due to uncaught exception of type std::out_of_range: PRIVATE words"
ABORTS = {
    GLIBC: "ggml-assert",
    CHECKED: "ggml-assert",
    "GGML_ASSERT: ggml-metal.m:1645: false": "ggml-assert",
    'GGML_ASSERT: /x/llama.cpp/ggml-cuda.cu:100: !"CUDA error"': "ggml-assert",
    HSA: "cuda",
    METAL: "gpu-oom",
    "/s/ggml/src/ggml-cuda/ggml-cuda.cu:648: HipVMM Failure: invalid argument": "cuda",
    "terminate called after throwing an instance of 'vk::DeviceLostError'": "cuda",
    "terminate called after throwing an instance of 'vk::OutOfDeviceMemoryError'": "gpu-oom",
    "terminate called after throwing an instance of 'std::runtime_error'": "terminate",
    "  what():  vk::Queue::submit: ErrorDeviceLost": "cuda",
    "  what():  somebody said vk::Queue::submit: ErrorDeviceLost": "exception",
    "ggml_aligned_malloc: insufficient memory (attempted to allocate 61440.00 MB)": "alloc",
    APPLE: "terminate",
}


@pytest.mark.parametrize(("line", "shape"), ABORTS.items())
def test_the_line_is_the_fact_and_can_be_found_fast(line: str, shape: str) -> None:
    found = recognise(line.encode())
    assert found is not None
    assert isinstance(found.fact, AbortFact)
    assert found.fact.shape == shape
    assert any(needle in line.encode() for needle in NEEDLES)
    assert "PRIVATE" not in f"{found.fact} {found.shown}"


@pytest.mark.parametrize(
    "line",
    [
        "the Assertion `x' failed.",
        "note: /b/a.cpp:1: said: Assertion failed",
        "GGML_ASSERT: everything",
        "error: Insufficient Memory",
        "libc++abi: terminating",
    ],
)
def test_prose_with_the_same_words_is_no_fact(line: str) -> None:
    assert parse_abort(line) is None


OLLAMA = 'time=2024-11-11T08:26:05.010Z level=ERROR source=sched.go:455 msg="no" error="{}"'


@pytest.mark.parametrize(
    ("said", "signal", "code"),
    [
        ("llama runner process has terminated: signal: segmentation fault (core dumped)", 11, None),
        ("llama runner process has terminated: signal: killed", 9, None),
        ("llama runner process has terminated: exit status 0xc000001d ", 4, None),
        ("llama runner process has terminated: exit status 0xC0000005", 11, None),
        ("llama-server process has terminated: exit status 1: error loading model: x", None, 1),
    ],
)
def test_ollama_names_what_its_runner_died_of(said: str, signal: int | None, code: int | None) -> None:
    assert parse_supervisor_line(OLLAMA.format(said)) == ExitFact(by="ollama", signal=signal, code=code)


@pytest.mark.parametrize(
    "line",
    [
        OLLAMA.format("llama runner process has terminated: exit status 2"),  # the Go runtime's own
        OLLAMA.format("llama runner process has terminated: exit status 0xdeadbeef"),
        OLLAMA.format("timed out waiting for llama runner to start"),
        "llama runner process has terminated: signal: killed",
    ],
)
def test_what_names_no_end_of_the_runner_is_none(line: str) -> None:
    assert parse_supervisor_line(line) is None


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("[  100.500000] NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.", "gpu-fault"),
        (
            "[  100.500000] amdgpu 0000:c2:00.0: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
            "gpu-fault",
        ),
        ("[  100.500000] PM: suspend entry (deep)", "suspend"),
        ("[  100.500000] box kernel: PM: suspend entry (deep)", "suspend"),
    ],
)
def test_two_words_and_a_colon_in_dmesg_are_no_host_and_program(line: str, shape: str) -> None:
    form = strip(line)[0].form
    found = recognise(line.encode(), form)
    assert found is not None
    assert isinstance(found.fact, KernelFact)
    assert (found.fact.shape, strip(line)[0].mono) == (shape, 100.5)


def test_a_program_behind_seconds_since_boot_has_a_pid() -> None:
    prefix, body = strip("[  100.500000] box llama-server[42]: srv  update_slots: all slots are idle")
    assert (prefix.form, prefix.pid, body) == ("syslog", 42, "srv  update_slots: all slots are idle")
    assert strip("[  100.500000] Filesystems sync: 0.012 seconds")[0].form == "dmesg"


def test_a_refused_argument_is_a_failed_start() -> None:
    found = recognise(b"error: invalid argument: --mmap")
    assert found is not None
    assert isinstance(found.fact, LogFact)
    assert found.fact.event == "bad-argument"
    assert recognise(b"error: invalid argument: a prompt about --mmap and more") is None


def test_tasks_after_a_wake_are_all_counted(tmp_path_factory: pytest.TempPathFactory) -> None:
    from analyzers.logs.scan import read_text

    lines = [
        "5.10.200.110 I que    start_loop: entering sleeping state",
        "5.10.200.400 I srv  handle_sleep: server is entering sleeping state",
        "9.41.007.200 I que    start_loop: exiting sleeping state",
        "9.41.007.480 I srv  handle_sleep: server is exiting sleeping state",
    ]
    for task in range(3):
        lines.append(f"9.5{task}.100.000 I slot launch_slot_: id  0 | task {task} | processing task")
        lines.append(f"9.5{task}.900.000 I slot      release: id  0 | task {task} | stop processing: n = 1")
    file = tmp_path_factory.mktemp("log") / "server.log"
    file.write_text("\n".join(lines) + "\n")
    told = timeline_of(read_text(file).lives[0])
    assert (told.phase, told.tasks_since_wake) == ("awake", 3)
