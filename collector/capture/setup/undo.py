"""Remove: the settings as they were before, then everything that was put in place. Works from every point of
an installation or a removal that was killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.setup import code, state
from collector.capture.setup.kernel import PATTERN, alone
from collector.capture.setup.layout import Layout
from collector.capture.setup.safe import sync_folder

HANDLER_SECONDS = 40.0  # a handler has 30 s for a minimal capture; its modules are needed until it ends
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Removal:
    """``changed``: sysctls that are neither as we left nor as we found them: name → present value."""

    layout: Layout
    found: state.State
    present: dict[str, str]

    @property
    def changed(self) -> dict[str, str]:
        kept = self.found
        return {
            name: self.present[name]
            for name in kept.left
            if self.present[name] not in (kept.left[name], kept.before[name])
        }

    def lines(self) -> Iterator[str]:
        """Each change in words, before it is made."""
        for name, value in self.restored().items():
            yield f"set {name}: {self.present[name]!r} -> {value!r}, as it was before"
        if self.found.persist is not None:
            yield f"remove {self.found.persist}"
        yield f"remove {self.layout.prefix}/crash, /coresocket, settings and state"
        yield f"leave the captures in {self.found.store}"

    def restored(self) -> dict[str, str]:
        """Sysctl → value before; core_pattern first, so that no crash meets the handler without its limit."""
        before = self.found.before
        names = sorted(before, key=lambda name: name != PATTERN)
        return {name: before[name] for name in names if self.present[name] != before[name]}


def removal(layout: Layout, *, force: bool = False) -> Removal:
    """Looks, changes nothing. Raises UserError: nothing installed, or somebody changed the settings since."""
    found = state.load(layout.state)
    if found is None:
        raise UserError("nothing is installed there", where=str(layout.prefix), remedy="see capture status")
    made = Removal(layout, found, layout.kernel.settings())
    if made.changed and not force:
        told = ", ".join(f"{name} is {value!r}" for name, value in made.changed.items())
        remedy = "set it back yourself, or give --force to restore what was before the installation"
        raise UserError(f"somebody changed it since: {told}", where="capture remove", remedy=remedy)
    return made


def apply(made: Removal) -> None:
    """Restore, then take away. Raises UserError when the kernel refuses, or another one is at work; what is
    left to do stays known."""
    with alone(made.layout.kernel):
        _apply(made)


def _apply(made: Removal) -> None:
    state.save(made.layout.state, made.found.moved(state.REMOVING))
    for name, value in made.restored().items():
        made.layout.kernel.write(name, value)
    _clear(made.layout, made.found)


def recover(layout: Layout, found: state.State) -> None:
    """Undo an installation that failed on its way; what cannot be undone stays known to ``remove``."""
    try:
        _apply(Removal(layout, found, layout.kernel.settings()))
    except (OSError, UserError):
        return


def _clear(layout: Layout, found: state.State) -> None:
    if found.persist is not None:
        path = Path(found.persist)
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            sync_folder(path.parent)
    _await_handlers(layout.main)
    code.take_away(layout)
    state.forget(layout.state)
    if not any(layout.prefix.iterdir()):
        layout.prefix.rmdir()


def _await_handlers(main: Path) -> None:
    """A handler at work loads modules as it goes: it is let finish."""
    until = time.monotonic() + HANDLER_SECONDS
    while code.handlers(main) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
