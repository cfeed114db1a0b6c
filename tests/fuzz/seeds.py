"""Inputs to begin with: cores built by hand, the texts of tests/cases, archives, what the tools say."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import zstandard

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "fixtures"), str(TESTS / "e2e")]

from bad_journal import as_json, core_record, export, kernel, output  # noqa: E402
from bad_material import ASLEEP, FAULT, REQUEST, START  # noqa: E402

from elfcore import CoreBuilder, queue_memory  # noqa: E402

CASES = TESTS / "cases"
MAX_TEXT = 16 << 10  # bytes of a seed; the fuzzer works best on small ones
SERVER = "/opt/server/llama-server"
QUEUE = 0x7F0000010000


def cores() -> list[bytes]:
    """One of each shape: plain, with the queue's memory, PN_XNUM, without notes, cut, many threads."""
    plain = _builder()
    queue = _builder().waiting(4004, QUEUE + 296 + 40).load(QUEUE, queue_memory(QUEUE, sleeping=1))
    many = CoreBuilder()
    for tid in range(40):
        many.thread(5000 + tid, rip=0x400010 + tid, rsp=0x7F0000000000)
    xnum = _builder()
    xnum.xnum = True
    whole = plain.bytes()
    return [whole, queue.bytes(), many.bytes(), xnum.bytes(), CoreBuilder().bytes(), whole[: len(whole) // 2]]


def _builder() -> CoreBuilder:
    made = CoreBuilder(auxv={3: 0x400040, 9: 0x400010, 33: 0x7FFF00000000})
    made.thread(4000, rip=0x400010, rsp=0x7F0000000010, rdi=0x172).waiting(4001, QUEUE + 40, timed=True)
    made.load(0x400000, b"\x7fELF" + bytes(60) + bytes(256), flags=5)
    made.load(0x7F0000000000, bytes(range(256)) * 2, size=8192)
    made.file(0x400000, 0x401000, 0, SERVER).file(0x500000, 0x501000, 1, "/usr/lib/libllama.so")
    return made


def notes() -> list[bytes]:
    """The note segments of the cores."""
    return [_builder().notes(), CoreBuilder().notes()]


@cache
def case_texts() -> tuple[tuple[str, bytes], ...]:
    """(file name, first bytes) of every input in tests/cases, the small ones of a kind first."""
    found = sorted(path for path in CASES.glob("[0-9]*/*") if path.is_file() and path.suffix != ".toml")
    return tuple((path.name, path.read_bytes()[:MAX_TEXT]) for path in found)


def texts(*suffixes: str) -> list[bytes]:
    """The inputs of the cases whose name ends so; all without an argument."""
    return [data for name, data in case_texts() if not suffixes or name.endswith(suffixes)]


def logs() -> list[bytes]:
    """Server logs of every era and wrapper, one of them reversed, with the project's own life of a server."""
    own = (START + REQUEST + ASLEEP + FAULT).encode()
    turned = b"\n".join(reversed(own.split(b"\n")))
    return [own, turned, *texts()]


def exports() -> list[bytes]:
    return [export(_entries()), *texts(".export")]


def jsons() -> list[bytes]:
    return [as_json(_entries()), *texts(".json", ".jsonl")]


def _entries() -> list[dict[str, str | bytes]]:
    return [*output(START + ASLEEP), kernel(), core_record(), *output("bad \x01\nline", at=600)]


def verbose() -> list[bytes]:
    """``journalctl -o verbose`` of a crash, written from its layout."""
    head = b"Wed 2026-12-02 08:00:0%d.000001 UTC [s=0a;i=%d;b=0123456789abcdef0123456789abcdef;m=5;t=6;x=7]\n"
    rows = [b"_TRANSPORT=stdout", b"_PID=4242", b"_COMM=llama-server", b"_UID=990", b"PRIORITY=6"]
    told = START.encode().splitlines()[:4] + ASLEEP.encode().splitlines()
    entries = [
        head % (at % 10, at) + b"".join(b"    " + row + b"\n" for row in (*rows, b"MESSAGE=" + line))
        for at, line in enumerate(told)
    ]
    return [b"".join(entries)]


def kernel_lines() -> list[bytes]:
    """Every kernel line that a case holds, a few at a time."""
    from analyzers.logs.kernel import parse_kernel_line

    lines = [
        line
        for data in texts()
        for line in data.splitlines()
        if len(line) < 1000 and parse_kernel_line(line.decode("utf-8", "replace"))
    ]
    return [b"\n".join(lines[at : at + 8]) for at in range(0, len(lines), 8)]


def traces() -> list[bytes]:
    """gdb's, lldb's, eu-stack's, coredumpctl's and the process's own."""
    words = (b"#0 ", b"frame #", b"Stack trace of thread", b"ggml_print_backtrace", b"TID ")
    return [EU_STACK, GDB_TRACE, *(data for data in texts() if any(word in data for word in words))]


EU_STACK = b"""\
PID 4242 - core
TID 4250:
#0  0x00007f3eb0222c81 llama_vocab::impl::tokenize(std::string const&, bool) - libllama.so
    [ab12]@0x7f3eb0000000+0x222c81
#1  0x00007f3eafa792b3 [inlined] tokenize_mixed - /opt/server/llama-server
    /src/common.cpp:9:3
#2  0x00007f3eb14a71f5 - 1 start_thread
#3  0x00007f3eb15278dc __clone3
TID 4242:
#0  0x0000000000400010
    [ab]@0x400000+0x10
"""
GDB_TRACE = b"""\
[Current thread is 1 (Thread 0x7f3e00000000 (LWP 4250))]

Thread 2 (Thread 0x7f3e00000001 (LWP 4242) "llama-server"):
#0  0x00007f3eb14a71f5 in ?? () from /lib/libc.so.6
#1  server_queue::start_loop (this=0x1) at queue.cpp:3
#2  0x00007f3eb0222c81 in main (argc=3, argv=0x7ffc) at main.cpp:9

Thread 1 (Thread 0x7f3e00000000 (LWP 4250) "llama-server"):
#0  0x00007f3eb0222c81 in llama_vocab::impl::tokenize (this=0x1, raw_text="x") at v.cpp:3
#1  0x00007f3eafa954cd in server_routes::handle_completions_impl () from /opt/llama-server
#2  0x00007f3eb15278dc in clone3 () from /lib/libc.so.6
"""
MI_TALK = b"""\
=thread-group-added,id="i1"
~"Core was generated by `llama-server'.\\n"
(gdb)
1^done,stack=[frame={level="0",addr="0x7f3e",func="llama_vocab::impl::tokenize",file="v.cpp",line="3"},\
frame={level="1",addr="0x40",func="??",from="/lib/libc.so.6"}]
(gdb)
2^done,value="4"
3^done,value="5"
4^error,msg="No symbol \\"server_queue\\" in current context."
5^done,value="16"
6^done,value="256"
7^done,value="296"
8^done,threads=[{id="1",target-id="Thread 0x7f (LWP 4250)",state="stopped"},\
{id="2",target-id="LWP 4242"}],current-thread-id="1"
9^done,new-thread-id="1"
10^done,stack=[frame={level="0",func="server_queue::start_loop(int)"}]
11^done,new-thread-id="1"
12^done,stack=[frame={level="0",func="server_queue::start_loop(int)"}]
13^done
14^done,value="true"
15^done,value="false"
16^done,value="0x1"
17^done,value="4646602"
"""


def mi() -> list[bytes]:
    return [MI_TALK, *(line + b"\n" for line in MI_TALK.splitlines())]


def issues() -> list[bytes]:
    return [*texts(".md"), b"# crash\n```\n" + START.encode() + b"```\n```gdb\n" + GDB_TRACE + b"```\n"]


def listings() -> Iterator[bytes]:
    """One byte that says which, then ss, systemctl, inspect and coredumpctl output."""
    for name, data in case_texts():
        for at, word in enumerate(("ss", "status", "inspect", "coredumpctl")):
            if name.startswith(word) or (word == "inspect" and name.endswith(".json")):
                yield bytes((at,)) + data
    yield b"\0" + SOCKETS
    yield b"\3" + CORE_INFO


SOCKETS = b"""\
State Recv-Q Send-Q Local Address:Port Peer Address:Port Process
LISTEN 0 512 127.0.0.1:8080 0.0.0.0:* users:(("llama-server",pid=4242,fd=3))
ESTAB 0 0 127.0.0.1:8080 127.0.0.1:51000 users:(("llama-server",pid=4242,fd=5))
\t cubic bytes_sent:0 bytes_received:500 lastsnd:9000 lastrcv:4000
"""
CORE_INFO = b"""\
           PID: 4242 (llama-server)
           UID: 990 (llama)
        Signal: 11 (SEGV)
     Timestamp: Wed 2026-12-02 08:00:00 UTC (1h ago)
    Executable: /usr/bin/llama-server
          Unit: llama.service
       Boot ID: 0123456789abcdef0123456789abcdef
       Storage: /var/lib/systemd/coredump/core.llama-server.990.zst (truncated)
       Message: Process 4242 (llama-server) of user 990 dumped core.
                Stack trace of thread 4250:
                #0  0x00007f3eb0222c81 _ZN11llama_vocab4impl8tokenizeEv (libllama.so + 0x222c81)
                #1  0x00007f3eb15278dc __clone3 (libc.so.6 + 0x1278dc)
"""


def archives() -> list[bytes]:
    """A bundle as tar, tar.gz and tar.zst, in GNU's and the pax format."""
    return [shape(_tar(kind)) for shape in SHAPES for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)]


SHAPES: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    lambda data: gzip.compress(data, mtime=0),
    lambda data: zstandard.ZstdCompressor(level=1).compress(data),
)


def _tar(kind: int) -> bytes:
    out = io.BytesIO()
    fact = {"id": "e1", "kind": "log", "source": "x", "text": "x", "trust": "kernel"}
    files = {
        "manifest.json": json.dumps({"schema": "llama-blackbox/bundle/1", "files": []}).encode(),
        "evidence.jsonl": json.dumps(fact).encode() + b"\n",
        "logs/server.log": (START + ASLEEP).encode(),
        "a/" * 60 + "deep": b"x",
    }
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for kind_, name in ((tarfile.SYMTYPE, "link"), (tarfile.DIRTYPE, "folder")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind_, "/etc/passwd" if kind_ == tarfile.SYMTYPE else ""
            if kind_ == tarfile.DIRTYPE:
                archive.addfile(info)
    return out.getvalue()


def packed() -> list[bytes]:
    """A core in each form that systemd-coredump and people use."""
    import bz2
    import lzma

    core = cores()[0]
    made = [gzip.compress(core, mtime=0), bz2.compress(core), lzma.compress(core)]
    made += [zstandard.ZstdCompressor().compress(core), core]
    try:
        import lz4.frame
    except ImportError:
        return made
    return [*made, lz4.frame.compress(core)]


def captures() -> list[bytes]:
    """capture.json, as the crash path writes it."""
    told = {
        "schema": "llama-blackbox/capture/1",
        "mode": "minimal",
        "crash": {"time": 1796000000, "signal": 11, "tid": 4250, "ns_pid": 1, "program": "llama-server"},
        "process": {"pid": 4242, "boot_id": "0123", "start_ticks": 5, "ticks_per_second": 100},
        "clocks": {"realtime": 1796000000.5},
        "imported": {"from": "systemd-coredump"},
        "adopted": {"why": "the handler was killed"},
        "gaps": [{"part": "maps", "why": "gone"}],
        "core": {"file": "core"},
        "arguments": ["llama-server", "--sleep-idle-seconds", "10"],
        "environment": {"A": "1"},
    }
    return [json.dumps(told).encode(), b'{"process": {"exe": {"path": "/usr/bin/x"}}, "clocks": {}}']
