"""Where a core went, for every shape of the machine's setting."""

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.lab.reference.cores import CoreSettings, file_glob, locate_core

PID = 4711
CORE = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<H", 4) + bytes(46)


def put(path, data=CORE, age=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if age:
        os.utime(path, (1000.0 - age, 1000.0 - age))
    return path


@pytest.mark.parametrize(
    ("pattern", "uses_pid", "name"),
    [
        ("core", False, "core"),
        ("core", True, f"core.{PID}"),
        ("core.%p", False, f"core.{PID}"),
        ("core.%p", True, f"core.{PID}"),
        ("core-%e-%t", False, "core-llama-server-1700000000"),
        ("core-%e", True, f"core-python.{PID}"),
        ("dumps/%p-%s", False, f"dumps/{PID}-11"),
        ("100%%.%p", False, f"100%.{PID}"),
        ("c[0].%P", False, f"c[0].{PID}"),
        ("core%", False, "core"),
        ("", True, f".{PID}"),
    ],
)
def test_a_relative_pattern_is_looked_for_in_the_working_directory(tmp_path, pattern, uses_pid, name):
    # GIVEN a core where core(5) says this pattern puts it
    core = put(tmp_path / name)
    # WHEN it is looked for THEN it is found
    found = locate_core(PID, tmp_path, settings=CoreSettings(pattern, uses_pid))
    assert found.path == core


def test_an_absolute_pattern_ignores_the_working_directory(tmp_path):
    core = put(tmp_path / "store" / f"core.x.{PID}.99")
    put(tmp_path / "cwd" / "core")
    found = locate_core(PID, tmp_path / "cwd", settings=CoreSettings(f"{tmp_path}/store/core.%e.%p.%t"))
    assert found.path == core


def test_the_newest_match_wins_and_an_older_run_is_left_out(tmp_path):
    put(tmp_path / "core.a", age=500)
    newer = put(tmp_path / "core.b", age=100)
    assert locate_core(PID, tmp_path, settings=CoreSettings("core.%e")).path == newer
    assert locate_core(PID, tmp_path, settings=CoreSettings("core.%e"), since=990.0).path is None


@pytest.mark.parametrize("data", [b"", b"\x7fELF", CORE[:16] + b"\x02\x00" + CORE[18:], b"text " * 20])
def test_what_is_not_a_core_is_not_taken_for_one(tmp_path, data):
    put(tmp_path / "core", data)
    assert locate_core(PID, tmp_path, settings=CoreSettings("core")).path is None


def test_a_link_in_place_of_the_core_is_not_followed(tmp_path):
    secret = put(tmp_path / "elsewhere" / "secret")
    (tmp_path / "core").symlink_to(secret)
    assert locate_core(PID, tmp_path, settings=CoreSettings("core")).path is None


def test_systemds_store_is_searched_by_boot_and_pid(tmp_path):
    # GIVEN this boot's core, another boot's of the same PID, and one still being written
    settings_ = CoreSettings("|/lib/systemd/systemd-coredump %P %u", boot_id="b" * 32, store=tmp_path)
    put(tmp_path / f"core.python.0.{'a' * 32}.{PID}.1.zst")
    put(tmp_path / f".#core.python.0.{'b' * 32}.{PID}.2.zst")
    assert locate_core(PID, tmp_path, settings=settings_).path is None
    mine = put(tmp_path / f"core.python.0.{'b' * 32}.{PID}.3.zst")
    # THEN only the finished one of this boot counts
    assert locate_core(PID, tmp_path, settings=settings_).path == mine


@pytest.mark.parametrize(
    ("given_", "word"),
    [
        (CoreSettings("|/usr/share/apport/apport %p"), "apport"),
        (CoreSettings("@/run/cores.socket"), "/run/cores.socket"),
        (CoreSettings("@@/run/cores.socket"), "/run/cores.socket"),
        (CoreSettings("core", limit=0), "ulimit -c"),
        (CoreSettings("", False), "empty"),
        (CoreSettings("core"), "no core at"),
    ],
)
def test_where_there_is_no_core_the_reason_says_why(tmp_path, given_, word):
    found = locate_core(PID, tmp_path, settings=given_)
    assert found.path is None
    assert word in found.reason


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=60).filter(lambda text: "\0" not in text), st.booleans())
def test_no_pattern_makes_it_fail(pattern, uses_pid):
    assert isinstance(file_glob(pattern, PID, uses_pid), str)
    found = locate_core(PID, Path("/nonexistent"), settings=CoreSettings(f"sub/{pattern}", uses_pid))
    assert found.reason


def test_a_core_that_the_handler_passed_on_is_found_in_the_servers_folder(tmp_path):
    handler = CoreSettings("|/usr/bin/python3 -ISB /opt/crash/__main__.py %P")
    assert locate_core(PID, tmp_path, settings=handler).path is None
    passed = put(tmp_path / "core", age=1)  # written at 999
    assert locate_core(PID, tmp_path, settings=handler).path == passed
    assert locate_core(PID, tmp_path, settings=handler, since=1001.0).path is None
    (tmp_path / "core").write_bytes(b"no core")
    assert locate_core(PID, tmp_path, settings=handler).path is None
