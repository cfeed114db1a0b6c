"""A debugger's trace and a shell's words inside a server's log: whose are they?"""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.triage.from_text import text_material
from analyzers.triage.material import Material, numbering

LOG = """\
0.00.000.300 I srv          init: initializing ...
0.00.030.948 I srv          init: model loaded
0.01.043.870 I que    start_loop: entering sleeping state
"""
AFTER = "0.02.043.870 I que    start_loop: exiting sleeping state\n"
READER = """\
#0  0x00007f0000000001 in llama_vocab::impl::tokenize(std::string const&, bool, bool) const ()
#1  0x00007f0000000003 in server_routes::handle_completions_impl(server_http_req const&) ()
#2  0x00007f0000000004 in start_thread ()
"""
GDB = f"Program terminated with signal SIGSEGV, Segmentation fault.\n{READER}"
LLDB = """\
* thread #1, name = 'llama-server', stop reason = signal SIGSEGV: address not mapped
  * frame #0: 0x07f00 libllama.so`llama_vocab::impl::tokenize(this=0x1, text="x") const at vocab.cpp:12:3
    frame #1: 0x00007f20 llama-server`server_routes::handle_count_tokens(server_http_req const&) + 215
"""
EU = "PID 4 - core\nTID 4:\n#0  0x00007f19fd490947 raise - libc.so.6\n"
GLIBC = "/opt/libllama.so(llama_decode+0x12)[0x7f0000001000]\n./llama-server(main+0x12) [0x7f0000001010]\n"
OWN = """\
#0  0x00007f0000000001 in wait4 ()
#1  0x00007f0000000002 in ggml_print_backtrace () from libggml-base.so
#2  0x00007f0000000003 in ggml_abort () from libggml-base.so
"""
ASSERT = "/src/ggml/src/ggml.c:10: GGML_ASSERT(ok) failed\n"


def of(tmp_path: Path, text: str, kind: str = "server-log") -> Material:
    (tmp_path / "a.log").write_text(text)
    return text_material(tmp_path / "a.log", "a.log", kind, numbering())


def kinds(material: Material, kind: str) -> list[Evidence]:
    return [item for item in material.evidence if item.kind == kind]


@pytest.mark.parametrize("trace", [GDB, LLDB, EU, GLIBC], ids=["gdb", "lldb", "eu-stack", "symbols"])
@pytest.mark.parametrize("after", ["", AFTER])
def test_a_trace_in_a_servers_log_without_its_own_mark_is_client_text(
    tmp_path: Path, trace: str, after: str
) -> None:
    found = of(tmp_path, LOG + trace + after)
    assert {item.trust for item in kinds(found, "stack")} == {Trust.CLIENT}
    assert kinds(found, "exit") == []
    assert [gap.command for gap in found.gaps if "stack trace" in gap.what] == [
        "give the trace as a file of its own"
    ]


@pytest.mark.parametrize("trace", [GDB, LLDB, EU, GLIBC], ids=["gdb", "lldb", "eu-stack", "symbols"])
def test_the_same_trace_in_a_file_of_its_own_counts(tmp_path: Path, trace: str) -> None:
    found = of(tmp_path, trace, "stack-trace")
    assert {item.trust for item in kinds(found, "stack")} == {Trust.SERVER}
    assert found.gaps == ()


@pytest.mark.parametrize(
    "text",
    [
        OWN,
        ASSERT + READER,
        READER + "[Inferior 1 (process 123) detached]\n",
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f2 (most recent call first):\n"
        '  File "/a/serve.py", line 12 in run\n',
    ],
    ids=["ggml's frame", "abort text", "ggml's debugger", "faulthandler"],
)
def test_what_the_process_shows_to_have_printed_is_the_servers(tmp_path: Path, text: str) -> None:
    found = of(tmp_path, LOG + text)
    assert {item.trust for item in kinds(found, "stack")} == {Trust.SERVER}


def test_a_core_that_a_trace_names_gives_its_stacks_the_process(tmp_path: Path) -> None:
    found = of(tmp_path, EU, "stack-trace")
    assert {item.incarnation.pid for item in found.evidence} == {4}


WORDS = [
    "Killed",
    "Terminated",
    "Segmentation fault (core dumped)",
    "./run.sh: line 3: 12 Aborted   ./llama-server",
]


@pytest.mark.parametrize("word", WORDS)
def test_a_shells_word_counts_only_as_the_last_line(tmp_path: Path, word: str) -> None:
    for end in ("", "\n", "\n\n \r\n"):
        (last,) = kinds(of(tmp_path, f"{LOG}{word}{end}"), "exit")
        assert last.trust is Trust.SUPERVISOR
    for text in (f"{LOG}{word}\n{AFTER}", f"{word}\n{LOG}", f"{LOG}{word}\nbye\n"):
        (inside,) = kinds(of(tmp_path, text), "exit")
        assert inside.trust is Trust.CLIENT


def test_a_shells_word_without_a_log_is_believed_anywhere(tmp_path: Path) -> None:
    (said,) = kinds(of(tmp_path, "$ ./run.sh\nSegmentation fault (core dumped)\n$ exit\n"), "exit")
    assert said.trust is Trust.SERVER
