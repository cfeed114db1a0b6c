"""Hostile input: nothing raises, nothing hangs, nothing unprintable comes out."""

from __future__ import annotations

import io
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.logs.aborts import parse_abort
from analyzers.logs.grammar import parse_line
from analyzers.logs.journal import read_export, read_json
from analyzers.logs.kernel import parse_kernel_line
from analyzers.logs.looks import looks_like_export, looks_like_json, looks_like_kernel, looks_like_log
from analyzers.logs.prefix import strip
from analyzers.logs.reading import Reading
from analyzers.logs.recognise import recognise
from analyzers.logs.scan import read_text
from analyzers.logs.supervisor import parse_supervisor_line
from analyzers.logs.telling import NEEDLES
from analyzers.logs.timeline import timeline_of

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
REAL = [
    b"0.01.059.063 I que    start_loop: entering sleeping state",
    b"0.01.059.315 I srv  handle_sleep: server is entering sleeping state",
    b"0.00.021.011 I slot launch_slot_: id  0 | task 355 | processing task, is_child = 0",
    b"0.05.166.417 W srv          stop: cancel task, id_task = 201",
    b"/w/tools/server/server-context.cpp:1067: failed to reload model after sleeping",
    b"python[3004]: segfault at 170 ip 00007f7e14a22c81 sp 00007f7e0b7fc100 error 4 in x.so[c2,7f+e0]",
    b"oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/a,task=llama-server,pid=4242,uid=0",
    b"llama.service: Main process exited, code=dumped, status=11/SEGV",
    b'{"type":"log","time":1059063,"level":"info","msg":"que    start_loop: entering sleeping state\\n"}',
    b'INFO [ update_slots] all slots are idle | tid="1" timestamp=1724599956',
    b"Dec 02 00:31:05 host llama[1]: 0.01.059.063 I que    start_loop: exiting sleeping state",
    b"llama-1  | 0.00.000.400 I srv          init: initializing ...",
    b"terminate called after throwing an instance of 'std::out_of_range'",
    b"./run.sh: line 3: 12345 Segmentation fault      (core dumped) ./llama-server",
    b"__REALTIME_TIMESTAMP=1764635465000000\n_PID=1\nMESSAGE=x\n",
    *NEEDLES,
]
MODEST = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Real lines, cut, glued, with bytes replaced, inserted and repeated."""
    line = bytearray(draw(st.sampled_from(REAL)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(line)))
        extra = draw(st.one_of(st.binary(max_size=6), st.sampled_from(REAL)))
        line[at : at + draw(st.integers(0, 8))] = extra * draw(st.sampled_from([1, 1, 2, 50]))
    return bytes(line)


def texts() -> st.SearchStrategy[bytes]:
    lines = st.lists(st.one_of(mutated(), st.binary(max_size=80)), max_size=30)
    return st.builds(lambda parts, end: end.join(parts), lines, st.sampled_from([b"\n", b"\r\n", b"\x00\n"]))


def check(reading: Reading) -> None:
    for item in reading.evidence:
        assert not CONTROL.search(item.text)
        assert not CONTROL.search(item.source)
        assert len(item.text) <= 220
    for life in reading.lives:
        timeline_of(life, reading.outside)
        assert life.skipped >= 0
    assert reading.evidence == () or reading.lines > 0


@MODEST
@given(texts())
def test_any_text_gives_a_reading(data: bytes) -> None:
    check(read_text(io.BytesIO(data), "x"))


@MODEST
@given(texts())
def test_any_bytes_give_a_journal_reading(data: bytes) -> None:
    check(read_export(io.BytesIO(data), "x"))
    check(read_json(io.BytesIO(data), "x"))


@MODEST
@given(st.one_of(mutated(), st.binary(max_size=300)))
def test_line_parsers_never_raise(raw: bytes) -> None:
    text = raw.decode("utf-8", "replace")
    strip(text)
    parse_line(text)
    parse_abort(text)
    parse_kernel_line(text)
    parse_supervisor_line(text)
    recognise(raw, "syslog")
    for looks in (looks_like_export, looks_like_json, looks_like_kernel, looks_like_log):
        looks(raw)


@MODEST
@given(
    st.sampled_from(REAL),
    st.sampled_from([b"a", b" ", b"(", b"[", b"1", b"/", b"'", b"x, ", b"{", b"\\", b": "]),
)
def test_long_runs_are_no_trap_for_the_patterns(real: bytes, run: bytes) -> None:
    """Sixty thousand repeats inside a real line: a pattern that backtracks would never come back."""
    at = len(real) // 2
    recognise(real[:at] + run * 60000 + real[at:], "dmesg")
    recognise(run * 60000 + real)


@MODEST
@given(st.lists(st.sampled_from(REAL[:12]), min_size=1, max_size=40), st.integers(1, 97))
def test_how_the_stream_is_cut_into_reads_does_not_matter(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)

    class Drip(io.RawIOBase):
        def __init__(self) -> None:
            self._rest = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def read(self, _size: int = -1) -> bytes:
            return self._rest.read(size)

    whole, dripped = read_text(io.BytesIO(data), "x"), read_text(Drip(), "x")
    assert dict(whole.counts) == dict(dripped.counts)
