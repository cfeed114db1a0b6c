"""Host selection for ``llama-blackbox triage`` without inputs: loaded by its name, answers in plain types."""

from __future__ import annotations

from pathlib import Path

from collector.gather.choose import choose
from collector.gather.dead import gather_death
from collector.gather.deaths import Places, others
from collector.gather.haul import Haul, without_core
from collector.gather.journal import Journal, demand_folder
from collector.gather.living import identify, passive_look, surroundings
from collector.gather.wanted import wanted

MAX_DEATHS = 8  # of one time span, as many as a table shows at once


def select(
    folder: Path,
    *,
    unit: str | None = None,
    pid: int | None = None,
    since: str | None = None,
    boot: str | None = None,
    journal: Path | None = None,
    include_private: bool = False,
    places: Places | None = None,
) -> tuple[list[Path], list[str]]:
    """Inputs for triage, written below ``folder`` (private, temporary), and a line on each that was chosen.

    A death gives a bundle and its core, where there is one that may be read: the newest one, or with
    ``since`` the newest eight. Raises UserError when nothing fits.
    """
    asked = wanted(unit, pid, since, boot)
    where = places or Places(journal=Journal(demand_folder(journal)))
    choice = choose(where, asked)
    if choice.server is not None:
        haul = Haul()
        identify(haul, where, choice.server, private=include_private)
        passive_look(haul, choice.server)
        surroundings(haul, choice.server)
        haul.missed(choice.gaps)
        return [_written(haul, folder, f"process-{choice.server.pid}", include_private)], [
            f"llama-server, PID {choice.server.pid}, running"
        ]
    several = since is not None and pid is None
    chosen = choice.deaths[: MAX_DEATHS if several else 1]
    inputs: list[Path] = []
    for number, death in enumerate(chosen):
        haul = gather_death(where, death, folder, private=include_private)
        if number == 0:
            haul.missed(choice.gaps)
            haul.missed(others(list(choice.deaths[len(chosen) :])))
        inputs += _inputs(haul, folder, f"death-{death.pid or death.tid or number}", include_private)
    return inputs, [death.words for death in chosen]


def _inputs(haul: Haul, folder: Path, name: str, private: bool) -> list[Path]:
    """The core itself, for all the ladder's rungs, instead of what was read in it for a bundle."""
    if haul.core is not None:
        haul.evidence = without_core(haul.evidence)
    bundle = _written(haul, folder, name, private)
    return [bundle, *([haul.core] if haul.core is not None else [])]


def _written(haul: Haul, folder: Path, name: str, private: bool) -> Path:
    target = folder / f"{name}.bundle"
    haul.write(target, private=private)
    return target
