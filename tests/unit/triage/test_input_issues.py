"""Pasted issues: each block read as what it is; a log with a client's fences in it is no issue."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.contracts.report import Report
from analyzers.triage.readers.issue_parts import blocks, looks_like_issue
from analyzers.triage.run import Options, triage

LOG = """0.00.004.097 I srv          init: initializing ...
0.00.004.098 I srv    load_model: loading model '/models/m.gguf'
2.00.004.097 I que    start_loop: entering sleeping state
"""
KERNEL = (
    "[ 4646.603480] llama-server[4242]: segfault at 172 ip 0000000000000172 sp 00007ffe00000000 error 14\n"
)
TRACE = """Program terminated with signal SIGSEGV, Segmentation fault.
#0  0x00007f0000001234 in llama_vocab::token_to_piece (this=0x0) at src/llama-vocab.cpp:10
#1  0x00007f0000001240 in main () at tools/server/server.cpp:3
"""
ISSUE = f"""### Name and Version

version: 10293 (a1f96d4fc)

### Operating systems

Linux

<details>
<summary>log</summary>

```console
{LOG}```

</details>

~~~
{KERNEL}~~~

{"".join(f"> {line}" for line in TRACE.splitlines(keepends=True))}
"""


def told(tmp_path: Path, text: str, name: str = "issue.md") -> Report:
    path = tmp_path / name
    path.write_text(text)
    with ExitStack() as stack:
        return triage([path], Options(fast=True), stack).report


def kinds(report: Report) -> list[str]:
    return [item.kind for item in report.inputs]


def test_an_issue_is_split_and_every_part_shown(tmp_path: Path) -> None:
    report = told(tmp_path, ISSUE)
    assert kinds(report) == ["issue", "server-log", "kernel-log", "stack-trace"]
    # THEN the parts decide together: the kernel's line, the trace, the sleep line and the version
    assert report.process.signal == "SIGSEGV"
    assert report.process.build == "10293 (a1f96d4fc)"
    assert any("entering sleeping state" in item.text for item in report.timeline)
    assert not any("other lives" in gap.what for gap in report.gaps)


def test_html_blocks_and_entities(tmp_path: Path) -> None:
    escaped = TRACE.replace("<", "&lt;").replace("(this=0x0)", "(v=std::vector&lt;int&gt;)")
    report = told(tmp_path, f"It dies.\n\n<pre><code>{escaped}</code></pre>\n\n```\n{LOG}```\n")
    assert kinds(report) == ["issue", "server-log", "stack-trace"]
    assert report.process.signal == "SIGSEGV"


def test_quoted_fences_lose_their_quote_marks_only() -> None:
    (block,) = blocks("".join(f"> > {line}\n" for line in ("```", "> kept", "x", "```")).encode())
    assert (block.fenced, block.lines) == (True, ["> kept", "x"])


def test_a_fence_that_is_never_closed_reaches_to_the_end(tmp_path: Path) -> None:
    report = told(tmp_path, f"It dies.\n\n```\n{LOG}")
    assert "server-log" in kinds(report)


def test_a_lone_trace_in_a_fence_reads_as_before(tmp_path: Path) -> None:
    report = told(tmp_path, f"```\n{TRACE}```\n")
    assert report.process.signal == "SIGSEGV"


def test_a_fence_inside_a_servers_log_is_a_prompts(tmp_path: Path) -> None:
    # GIVEN a verbose log in which a client's prompt holds a fenced kernel line
    text = f"{LOG}```\n{KERNEL}```\n{LOG}"
    assert not looks_like_issue(text.encode())
    report = told(tmp_path, text, "server.log")
    # THEN it is read whole, and the line is not the kernel's word
    assert kinds(report) == ["server-log"]
    assert report.process.signal is None


def test_the_same_beyond_the_head_of_the_file(tmp_path: Path) -> None:
    prose = "a line of a prompt\n" * 5000
    report = told(tmp_path, f"```\n{KERNEL}```\n{prose}{LOG}")
    assert report.process.signal is None


@pytest.mark.parametrize("text", ["```\n" * 5000, "<pre>" * 5000, "> " * 20000, "```\n" + "x" * 200_000])
def test_hostile_issues_are_bounded(text: str) -> None:
    assert len(blocks(text.encode())) <= 5001
