"""A crash whose frames have no names, and a server that did not survive its own awake measurement."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analyzers.contracts.report import FrameView, Report, Thread, Tool, Verdict
from collector.lab.faults.provoked import CRASH, ERROR
from collector.lab.verify import judge as module
from collector.lab.verify.judge import ended_awake, has_names, judge


def report(*frames: tuple[str | None, str | None], crashed: bool = True, **verdict: Any) -> Report:
    thread = Thread(
        crashed=crashed, frames=[FrameView(function=name, module=where) for name, where in frames]
    )
    told = {
        "class": "SEGV",
        "cause": "server",
        "phase": "unknown",
        "confidence": "weak",
        "summary": "A fault.",
    }
    return Report(
        tool=Tool(version="0", catalogue="1"), verdict=Verdict(**{**told, **verdict}), threads=[thread]
    )


@pytest.mark.parametrize(
    ("frames", "crashed", "named"),
    [
        ([("llama_vocab::impl::tokenize", "llama-server")], True, True),
        ([("llama_tokenize", None)], True, True),
        ([(None, "llama-server"), ("server_queue::post", "llama-server")], True, True),
        ([(None, "llama-server")], True, False),
        ([("", "llama-server")], True, False),
        ([(None, "llama-server"), ("__libc_start_call_main", "libc.so.6")], True, False),
        ([("std::terminate()", "libstdc++.so.6.0.30"), (None, "llama-server")], True, False),
        ([("raise", "libc-2.31.so"), ("start_thread", "libpthread.so.0"), (None, None)], True, False),
        ([("clock_gettime", "linux-vdso.so.1"), ("_start", "ld-linux-x86-64.so.2")], True, False),
        ([("ggml_compute_forward", "libggml-cpu.so")], True, True),
        ([("curl_easy_perform", "libcurl.so.4")], True, True),
        ([("llama_vocab::impl::tokenize", "llama-server")], False, False),
        ([], True, False),
    ],
)
def test_only_the_servers_own_frames_name_a_crash(
    frames: list[tuple[str | None, str | None]], crashed: bool, named: bool
) -> None:
    assert has_names(report(*frames, crashed=crashed)) is named


@pytest.mark.parametrize(
    ("outcome", "defect", "frames", "named"),
    [
        (CRASH, None, [(None, "llama-server")], False),
        (CRASH, None, [("f", "llama-server")], True),
        (CRASH, "D2", [(None, "llama-server")], True),  # something else told it
        (ERROR, None, [], True),  # a living server has no crash to name
    ],
)
def test_a_crash_without_names_says_so_in_its_judgement(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    outcome: str,
    defect: str | None,
    frames: list[tuple[str | None, str | None]],
    named: bool,
) -> None:
    made = SimpleNamespace(report=report(*frames, defect=defect))
    monkeypatch.setattr(module, "record", lambda *_: [])
    monkeypatch.setattr(module, "triage", lambda *_: made)
    said, _ = judge(SimpleNamespace(outcome=outcome), tmp_path)  # type: ignore[arg-type]
    assert (said.named, said.class_) == (named, "SEGV")
    assert ("no names" in said.summary) is not named


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (signal.SIGKILL, None, ("ended from outside by SIGKILL", "out of memory, or another process")),
        (signal.SIGTERM, None, ("ended from outside by SIGTERM", "another process")),
        (signal.SIGSEGV, None, ("crashed (SIGSEGV)", "no sleep being near")),
        (signal.SIGABRT, None, ("crashed (SIGABRT)", "another defect")),
        (None, 1, ("ended by itself with status 1",)),
        (200, None, ("signal 200",)),
    ],
)
def test_an_end_in_the_awake_measurement_is_named(
    monkeypatch: pytest.MonkeyPatch, number: int | None, code: int | None, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(module, "oom_kills", lambda: 3)
    said = ended_awake(number, code, 3)
    assert all(word in said for word in words)


def test_the_kernels_count_tells_out_of_memory_from_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "oom_kills", lambda: 4)
    assert ended_awake(signal.SIGKILL, None, 3).endswith("the kernel was out of memory")
