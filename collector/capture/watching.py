"""`capture watch`: until told to stop, or once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.intake.take import FOREIGN, take
from collector.capture.intake.watch import POLL_SECONDS, Watch
from collector.gather.stopping import tidied


def run(
    folders: Sequence[Path], store: Path, reserve: int, *, once: bool, say: Callable[[str], None]
) -> None:
    """Raises UserError when a folder is gone. A store that takes nothing costs that core only."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # what a broken lease sends; by default it ends the process
    watch = Watch([folder.absolute() for folder in folders], still=inf if once else Watch.still)
    try:
        with tidied():
            while True:
                _turn(watch, store, reserve, say)
                if once:
                    return
                time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return


def _turn(watch: Watch, store: Path, reserve: int, say: Callable[[str], None]) -> None:
    for found in watch.ready():
        try:
            outcome = take(found, store, reserve)
        except UserError as problem:
            say(f"{found.where}: not taken: {problem}")
            continue
        if outcome.state != FOREIGN:
            say(outcome.words)
    while watch.refused:
        say(watch.refused.pop(0))
