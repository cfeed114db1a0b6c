"""Told to stop, `collect` leaves nothing half written; what does not go together is refused at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.cli.main import main
from analyzers.contracts.report import Gap
from collector.gather.choose import _nothing
from collector.gather.stopping import STOPS, tidied
from collector.gather.wanted import Wanted


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """A test run under nohup ignores SIGHUP."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_in_the_middle_of_writing_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    # GIVEN a bundle whose second file ends the process while it is written
    class Ending(dict[str, Path | bytes]):
        def __getitem__(self, name: str) -> Path | bytes:
            if name == "b.log":
                os.kill(os.getpid(), number)
            return super().__getitem__(name)

    files = Ending({"a.log": b"x" * 100_000, "b.log": b"y"})
    # WHEN the signal comes
    with pytest.raises(KeyboardInterrupt), tidied():
        write_bundle(tmp_path / "half.tar.zst", ManifestParts(), files)
    # THEN neither the bundle nor its beginnings are there, and the signals mean what they did
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with tidied():
        os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_changes_no_signals() -> None:
    seen = []

    def work() -> None:
        with tidied():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--port", "80"), "--port is of a live look"),
        (("--api-prefix", "/a"), "--api-prefix is of a live look"),
        (("--metrics",), "--metrics is of a live look"),
        (("--live", "--pid", "1", "--port", "99999"), "not a TCP port"),
        (("--live", "--pid", "1", "--since", "1h"), "--live looks at what runs now"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert main(["collect", *words, "-o", str(tmp_path / "a.tar.zst")]) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert shown.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("made", ["file", "folder", "link", "missing", "read-only"])
def test_where_the_bundle_cannot_go_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.tar.zst"
    if made == "file":
        target.write_text("mine")
    elif made == "folder":
        target.mkdir()
    elif made == "link":
        target.symlink_to(tmp_path / "nowhere")
    elif made == "missing":
        target = tmp_path / "none" / "a.tar.zst"
    else:
        monkeypatch.setattr("collector.gather.cli.os.access", lambda *_: False)  # root may write everywhere
    before = sorted(tmp_path.rglob("*"))
    assert main(["collect", "--pid", "1", "-o", str(target)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_could_not_be_searched_is_not_said_to_be() -> None:
    gaps = [Gap(what="kernel lines", why="only root may")]
    told = str(_nothing(Wanted(), gaps))
    assert "searched: kept cores, the journal;" in told
    assert "not searched: the kernel's lines (only root may)" in told
    assert "not searched" not in str(_nothing(Wanted(), []))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_a_stop_is_said_and_leaves_no_half_of_a_bundle(number: signal.Signals, tmp_path: Path) -> None:
    """GIVEN a verb that is at work in its own temporary folder WHEN it is told to stop."""
    entry = (
        "import sys, time, signal, pathlib\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from collector.gather import cli\n"
        "def slow(*a, **k):\n"
        "    pathlib.Path('ready').touch()\n"
        "    time.sleep(600)\n"
        "cli.choose = slow\n"
        "from analyzers.cli.main import main\n"
        "sys.exit(main(['collect', '-o', 'out.tar.zst']))"
    )
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-c", entry]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as work:
        until = time.monotonic() + 60
        while not (tmp_path / "ready").exists() and time.monotonic() < until and work.poll() is None:
            time.sleep(0.02)
        work.send_signal(number)
        said = work.communicate(timeout=60)[1]
    assert work.returncode == 130
    assert said == "llama-blackbox: interrupted\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ready", "tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []
