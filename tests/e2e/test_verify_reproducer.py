"""The reproducer for real: it stands alone, crashes a real server, and says so by its status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from verify_process import verified
from verify_wheels import AFFECTED, FIXED, WHEELS

from analyzers.errors import UserError
from collector.lab.native.build import Recipe, find_build
from collector.lab.reference.environments import prepare

pytestmark = pytest.mark.real
LIMIT = 300
UNPOKED = "2026.8.10229"  # from before b10519: there GET /metrics counts as work
BARE = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run that shows D1 hands over, with what it knows of D2 and D3 put in as well."""
    home = tmp_path_factory.mktemp("reproducer")
    arguments = ("pinned", "--version", WHEELS[AFFECTED], "--defect", "D1", "--trials", "1")
    status, out, err = verified(home / "run", *arguments, "--reproducer", str(home / "made"))
    assert status == 1, err
    assert "reproducer:" in out
    return home / "made"


def ran(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(script), *arguments],
        env=BARE,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def whole(folder: Path, tmp_path: Path) -> Path:
    """The same script for all its defects."""
    text = (folder / "reproduce.py").read_text()
    script = tmp_path / "reproduce.py"
    script.write_text(text.replace("DEFECTS = ('D1',)", "DEFECTS = ('D1', 'D2', 'D3')"))
    (tmp_path / "model.gguf").write_bytes((folder / "model.gguf").read_bytes())
    return script


def test_it_is_one_script_and_one_model_for_what_was_shown(folder: Path) -> None:
    assert sorted(each.name for each in folder.iterdir()) == ["model.gguf", "reproduce.py"]
    assert "DEFECTS = ('D1',)" in (folder / "reproduce.py").read_text()
    assert (folder / "model.gguf").read_bytes()[:4] == b"GGUF"


def test_d1_is_seen_where_it_is(folder: Path) -> None:
    done = ran(folder / "reproduce.py", "--python", str(prepare(WHEELS[AFFECTED])))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "D1 SEEN" in done.stdout
    assert "the server died of SIG" in done.stdout


def test_d1_is_not_seen_where_it_is_fixed(folder: Path) -> None:
    done = ran(folder / "reproduce.py", "--python", str(prepare(WHEELS[FIXED])))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "D1 not seen" in done.stdout


@pytest.mark.parametrize("defect", ["D2", pytest.param("D3", marks=pytest.mark.full)])
def test_d2_and_d3_are_seen_by_the_same_script(folder: Path, tmp_path: Path, defect: str) -> None:
    script = whole(folder, tmp_path)
    done = ran(script, "--python", str(prepare(WHEELS[FIXED])), "--defect", defect)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{defect} SEEN" in done.stdout
    assert defect != "D3" or "GET /slots woke it, and the request was answered" in done.stdout


@pytest.mark.full
def test_a_native_server_is_tested_the_same_way(folder: Path, tmp_path: Path) -> None:
    try:
        build = find_build(Recipe(11368, None, False)) or find_build(Recipe(11138, None, False))
    except UserError as error:
        pytest.skip(f"no native build: {error}")
    if build is None:
        pytest.skip("no native build in the cache: run `llama-blackbox reference build --build 11368`")
    script = whole(folder, tmp_path)
    done = ran(script, "--server-bin", str(build.binary), "--defect", "D2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "D2 SEEN" in done.stdout


@pytest.mark.full
@pytest.mark.parametrize("defect", ["D2", "D3"])
def test_a_fix_that_declines_to_sleep_is_sound(folder: Path, tmp_path: Path, defect: str) -> None:
    try:
        build = find_build(Recipe(11368, "count-requests", False))
    except UserError as error:
        pytest.skip(f"no native build: {error}")
    if build is None:
        pytest.skip("run: llama-blackbox reference build --build 11368 --fix count-requests")
    done = ran(whole(folder, tmp_path), "--server-bin", str(build.binary), "--defect", defect)
    assert done.returncode == 0, done.stdout + done.stderr
    # D2's long answer may still be on its way when the count is zero and the server sleeps
    assert defect == "D2" or "the server stayed awake for it and slept later" in done.stdout


@pytest.mark.full
def test_a_build_whose_sleep_no_poke_moves_stays_open(folder: Path, tmp_path: Path) -> None:
    done = ran(whole(folder, tmp_path), "--python", str(prepare(UNPOKED)), "--defect", "D3")
    assert done.returncode == 125, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--url", "http://127.0.0.1:8080"), "never tested"),
        (("--server-bin", "/no/such/llama-server"), "no such file"),
        ((), "give one of"),
        (("--server-bin", "/bin/true", "--python", "/bin/true"), "give one of"),
        (("--server-bin", "/bin/true"), "could not be tried"),
        (("--server-bin", "/etc/hostname"), "could not be tried"),
        (("--python", "/bin/true"), "could not be tried"),
        (("--defect", "D9", "--server-bin", "/bin/true"), "invalid choice"),
    ],
)
def test_what_cannot_be_tried_is_125_and_never_a_verdict(
    folder: Path, arguments: tuple[str, ...], named: str
) -> None:
    done = ran(folder / "reproduce.py", *arguments)
    assert done.returncode == 125, done.stdout + done.stderr
    assert named in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_logs_and_cores_are_kept_only_when_asked(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done = ran(folder / "reproduce.py", "--server-bin", "/bin/true", "--keep", str(kept))
    assert done.returncode == 125
    assert list(kept.glob("reproduce-*/server.log"))


def test_nothing_of_ours_is_needed(folder: Path) -> None:
    """In isolated mode, from another folder, with an empty environment: `analyzers` cannot be found."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "reproduce.py"), "--help"],
        env=BARE,
        cwd=os.sep,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "--server-bin" in done.stdout
