"""The cheap look for a stack trace: finds each common shape, and never works through a line of megabytes."""

import pytest

from analyzers.triage.traces import looks_like_trace

LONG_SYMBOL = b"_ZN5llama" + b"3fooE" * 700  # a mangled name of a template, 3.5 KB


@pytest.mark.parametrize(
    "line",
    [
        b"#0  0x00007f0000001234 in llama_decode ()",
        b"#12 main () at main.cpp:3",
        b"frame #3: 0x0000000100003f50 llama-server`main",
        b"Stack trace of thread 4711:",
        b"Thread 3 (Thread 0x7f12 (LWP 7)):",
        b"Fatal Python error: Segmentation fault",
        b"/usr/lib/libllama.so(+0x1234) [0x7f0000001234]",
        b"/usr/lib/libllama.so(" + LONG_SYMBOL + b"+0x1234)[0x7f0000001234]",
        b"2026-12-02T00:00:00Z host llama[42]: /usr/lib/libggml-base.so(ggml_abort+0x15a) [0x7f0000001234]",
    ],
)
def test_a_frame_or_head_of_a_thread_is_seen(line):
    assert looks_like_trace(b"something before\n" + line + b"\nsomething after\n")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x" * (8 << 20),  # took 5 s, the time a client needs to send it is less
        b"a(" * (1 << 20),
        b"# comment\n#include <x>\n",
        b"f(a+0x12) = 3",
    ],
)
def test_other_text_is_not_taken_for_one(text):
    assert not looks_like_trace(text)
