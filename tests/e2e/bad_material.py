"""What bad input is made of: server logs with forged text, real cores of other programs, hostile archives."""

from __future__ import annotations

import io
import os
import random
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import zstandard

from collector.lab.reference.cores import locate_core

RANDOM = random.Random(20261202)
PID = 4242
# A life of a server up to a request, as b11549 prints it.
START = """\
0.00.000.278 I srv          init: initializing ...
0.00.001.932 I srv          init: build_info: b11549-0123abcd
0.00.001.950 I cmn  common_param: common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)
0.00.004.097 I srv          init: loading model
0.00.004.166 I srv    load_model: loading model '/models/m.gguf'
0.00.038.024 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512, kv_unified = 'false'
0.00.040.290 I srv          init: model loaded
0.00.040.319 I srv          init: listening on http://127.0.0.1:8080
"""
REQUEST = """\
0.05.100.000 I slot launch_slot_: id  0 | task 7 | processing task, is_child = 0
0.05.200.000 I slot      release: id  0 | task 7 | stop processing: n_tokens = 8, truncated = 0
0.05.200.100 I srv  log_server_r: done request: POST /completion 127.0.0.1 200
0.05.200.200 I srv  update_slots: all slots are idle
"""
ASLEEP = """\
0.15.400.000 I que    start_loop: entering sleeping state
0.15.400.200 I srv  handle_sleep: server is entering sleeping state
"""
FAULT = (
    f"[  500.000000] llama-server[{PID}]: segfault at 8 ip 00007f3eb0222c81 sp 00007f3e00000000 error 4 "
    "in libllama.so[222c81,7f3eb0000000+300000] likely on CPU 1 (core 1, socket 0)\n"
)


def put(path: Path, data: bytes | str) -> Path:
    """``data`` in a new file at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def tar(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    """A tar of files (name, bytes) and of entries given as they are, whatever their names say."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def entry(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    """An entry without content: a link, a device, a pipe."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@cache
def foreign_core(*argv: str) -> bytes:
    """The core of a real process that is no llama-server, killed by SIGSEGV."""
    with tempfile.TemporaryDirectory(prefix="bad-core-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *argv],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with process:
            assert process.stdout is not None
            process.stdout.read()  # ends when the program has been started: the pipe closes on exec
            process.send_signal(signal.SIGSEGV)
            process.wait(30)
        found = locate_core(process.pid, Path(folder))
        if found.path is None or found.path.suffix in (".zst", ".lz4", ".xz"):
            pytest.skip(f"no plain core on this machine: {found.reason}")
        return found.path.read_bytes()


_LAUNCH = """
import os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
os.set_inheritable(1, False)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def without_rights(action: Callable[[], int]) -> tuple[int, str, str]:
    """Status, output and errors of ``action`` run without the right to pass over permissions.

    As root it runs in a fork as user nobody; whatever it imports must have been imported before.
    """
    if os.geteuid() != 0:
        return _captured(action)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setegid(65534)
            os.seteuid(65534)
            with os.fdopen(write, "w") as pipe:
                pipe.write(repr(_captured(action)))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    from ast import literal_eval

    return literal_eval(said)


def _captured(action: Callable[[], int]) -> tuple[int, str, str]:
    from contextlib import redirect_stderr, redirect_stdout

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = action()
    return status, out.getvalue(), err.getvalue()


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that every user may enter; pytest's own are for their owner alone."""
    with tempfile.TemporaryDirectory(prefix="bad-input-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - for the user without rights
        yield Path(folder)


def no_cores() -> None:
    """For children that are meant to die."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
