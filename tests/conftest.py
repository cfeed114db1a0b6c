"""For every test: the owner's catalogue overlay, and how the run was started, stay out of it."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

import pytest

# Before any module of ours is imported, and for the processes that tests start: an overlay or a pack of the
# user would change verdicts' sentences and the catalogue's version.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="llama-blackbox-tests-data-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)

# A run in a shell's background ignores SIGINT, one under nohup SIGHUP, and so would every process that tests
# start; Python installs its own SIGINT handler only where the signal was not ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _no_alarm_is_left() -> Iterator[None]:
    """A timer that code under test left running would end the whole run half a minute later."""
    yield
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    assert left == 0, f"an alarm was left running, {left:.1f} s before it would have ended the run"
