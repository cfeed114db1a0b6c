"""`git bisect run` with the script of docs/verify.md finds the commit that brought a defect in."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from verify_wheels import AFFECTED, FIXED, command_environment, write_server

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]
DOCUMENT = Path(__file__).parents[2] / "docs" / "verify.md"
LIMIT = 300


def documented_script() -> str:
    """The first shell script of the page, which starts with its interpreter."""
    found = re.search(r"^```sh\n(#!/bin/sh\n.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def script_for(history: Path, scripts: Path) -> Path:
    """The documented script; building is copying here, and a commit without a server does not build."""
    lines = documented_script().splitlines(keepends=True)
    builds = [at for at, line in enumerate(lines) if line.startswith("server=")]
    assert len(builds) == 1, "the page has one line that builds"
    made = "mkdir -p build/bin && cp llama-server BUILD build/bin/ || exit 125\n"
    lines[builds[0]] = f"{made}server=build/bin/llama-server\n"
    path = scripts / "bisect.sh"
    path.write_text("".join(lines))
    path.chmod(0o755)
    return path


def git(history: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@localhost", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=history,
        env={**command_environment(), "GIT_CONFIG_GLOBAL": "/dev/null"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return done.stdout + done.stderr


def commit(history: Path, subject: str, build: str | None) -> None:
    if build is None:
        (history / "BUILD").unlink()
    else:
        write_server(history, build)
    (history / "CHANGES").write_text(subject)
    git(history, "add", "-A")
    git(history, "commit", "-q", "-m", subject)


def test_bisect_finds_the_first_affected_commit(tmp_path: Path) -> None:
    # GIVEN a history: sound, sound, does not build, affected, affected; `llama-server` starts real wheels
    history = tmp_path / "llama.cpp"
    history.mkdir()
    git(history, "init", "-q")
    (history / ".gitignore").write_text("build/\n")
    builds = (("sound", FIXED), ("still sound", FIXED), ("brings D1 in", AFFECTED), ("later", AFFECTED))
    for subject, build in builds:
        commit(history, subject, build)
    script = script_for(history, tmp_path)
    # WHEN bisected with the documented script
    git(history, "bisect", "start", "HEAD", "HEAD~3")
    said = git(history, "bisect", "run", str(script), "--defect", "D1", "--trials", "6")
    # THEN it is the right one
    assert "is the first bad commit" in said, said
    assert "brings D1 in" in said.partition("is the first bad commit")[2], said


@pytest.mark.parametrize(
    ("status", "expected"), [(0, 0), (1, 1), (2, 125), (120, 125), (125, 125), (127, 125), (130, 255)]
)
def test_the_script_lets_nothing_but_a_verdict_judge(tmp_path: Path, status: int, expected: int) -> None:
    # GIVEN a verifier that ends with a status of its own
    (tmp_path / "build" / "bin").mkdir(parents=True)
    for name in ("llama-server", "BUILD"):
        (tmp_path / name).write_text("x")
    fake = tmp_path / "bin" / "llama-blackbox"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n[ "$2" = --help ] && exit 0\nexit {status}\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{fake.parent}:/usr/bin:/bin"}
    script = script_for(tmp_path, tmp_path)
    # WHEN the documented script runs
    done = subprocess.run([script, "--defect", "D1"], cwd=tmp_path, env=environment, timeout=30, check=False)
    # THEN git sees good, bad, skip or stop, each for the right reason
    assert done.returncode == expected


@pytest.mark.parametrize("broken", ["exit 1", "exit 127"])
def test_a_broken_installation_stops_the_bisection(tmp_path: Path, broken: str) -> None:
    fake = tmp_path / "bin" / "llama-blackbox"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{broken}\n")
    fake.chmod(0o755)
    script = script_for(tmp_path, tmp_path)
    environment = {"PATH": f"{fake.parent}:/usr/bin:/bin"}
    done = subprocess.run([script, "--defect", "D1"], cwd=tmp_path, env=environment, timeout=30, check=False)
    assert done.returncode == 255


def test_a_commit_that_does_not_build_is_skipped(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "llama-blackbox"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    script = script_for(tmp_path, tmp_path)
    environment = {"PATH": f"{fake.parent}:/usr/bin:/bin"}
    done = subprocess.run(
        [script, "--defect", "D1"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.DEVNULL,
        timeout=30,
        check=False,
    )
    assert done.returncode == 125
