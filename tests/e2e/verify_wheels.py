"""A "llama-server" that is a wheel: a program that takes the command line of the native server.

It lets the verifier be tried on real servers with and without a defect wherever wheels can be had, and lets a
history of builds be made up: each folder's file BUILD names the wheel that its llama-server starts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION, prepare
from collector.lab.reference.spec import HOSTED_SCRIPT

AFFECTED, FIXED = "11063", "11549"  # with and without D1
WHEELS = {AFFECTED: STALE_CAPTURE_VERSION, FIXED: UNLOAD_VERSION}
ADAPTER = """#!{python} -IS
import json, os, sys
from pathlib import Path
wheels = {wheels!r}
build = Path(__file__).with_name("BUILD").read_text().strip()
given = sys.argv[1:]
if "--version" in given:
    print("version: " + build + " (abcdef012)")
    sys.exit(0)
refused = {refused!r}
if refused in given:
    print("error: invalid argument: " + refused)
    sys.exit(1)
names = {{
    "-m": ("model", str), "--host": ("host", str), "--port": ("port", int), "-c": ("n_ctx", int),
    "--sleep-idle-seconds": ("sleep_idle_seconds", int), "-np": ("n_parallel", int),
    "-t": ("cpuparams.n_threads", int), "--threads-http": ("n_threads_http", int), "-lv": ("verbosity", int),
}}
wanted = {{"warmup": "--no-warmup" not in given, "endpoint_metrics": "--metrics" in given}}
wanted["endpoint_slots"] = "--no-slots" not in given
for at, name in enumerate(given):
    if name in names:
        key, kind = names[name]
        wanted[key] = kind(given[at + 1])
os.execv(wheels[build], [wheels[build], "-I", {hosted!r}, json.dumps(wanted)])
"""


def write_server(folder: Path, build: str | None = None, refused: str = "") -> Path:
    """``folder``/llama-server, starting the wheel of ``build``, or of the file BUILD beside it.

    ``refused``: an argument it does not know, as an old build would not.
    """
    wheels = {number: str(prepare(version)) for number, version in WHEELS.items()}
    path = folder / "llama-server"
    text = ADAPTER.format(python=sys.executable, wheels=wheels, hosted=str(HOSTED_SCRIPT), refused=refused)
    path.write_text(text)
    path.chmod(0o755)
    if build is not None:
        (folder / "BUILD").write_text(build)
    return path


def command_environment() -> dict[str, str]:
    """An environment in which `llama-blackbox` is the one of this installation."""
    beside = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{beside}:{os.environ.get('PATH', '')}"}
