"""`llama-blackbox verify pinned`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from analyzers.errors import UserError
from collector.lab.reference.output import printable
from collector.lab.verify import options
from collector.lab.verify.outputs import deliver
from collector.lab.verify.pinned.conclude import conclude
from collector.lab.verify.pinned.method import Choice, carry_out
from collector.lab.verify.pinned.shapes import DEFECTS
from collector.lab.verify.session import run
from collector.lab.verify.subject import Wanted

TRIALS = 20


def pinned(
    version: options.Version = None,
    server_bin: options.ServerBin = None,
    build: options.Build = None,
    fix: options.Fix = None,
    asan: options.Asan = False,
    model: options.ModelFile = None,
    defect: Annotated[
        list[str] | None, typer.Option("--defect", help="D1, D2 or D3; may be given again; all by default")
    ] = None,
    trials: options.Trials = None,
    unpoisoned: Annotated[
        bool, typer.Option("--unpoisoned", help="leave freed memory as it is: errors and wrong answers too")
    ] = False,
    until_shown: Annotated[
        bool, typer.Option("--until-shown", help="stop each defect at the first trial that shows it")
    ] = False,
    seed: options.Seed = 0,
    json: options.Json = None,
    junit: options.Junit = None,
    reproducer: options.Reproducer = None,
    output: options.Output = None,
    update_catalogue: options.UpdateCatalogue = False,
) -> int:
    """Put the server's moment of sleep into a request, at the place each defect needs.

    Exit status: 0 sound, 1 a defect was found, 2 server or command line unusable, 125 inconclusive.
    """
    choice = Choice(chosen_defects(defect), trials or TRIALS, unpoisoned, until_shown)
    finished = run(
        "pinned",
        partial(carry_out, choice=choice),
        partial(conclude, defects=choice.defects, planned=choice.trials, unpoisoned=unpoisoned),
        Wanted(version, server_bin, build, fix, asan, model),
        options.Outputs(json, junit, reproducer, output, update_catalogue),
        seed=seed,
        options=said(choice),
    )
    return deliver(finished, options.Outputs(json, junit, reproducer, output, update_catalogue))


def chosen_defects(wanted: list[str] | None) -> tuple[str, ...]:
    """Raises UserError for an id that no pinned trial is made for."""
    named = tuple(dict.fromkeys(each.upper() for each in wanted or DEFECTS))
    for each in named:
        if each not in DEFECTS:
            raise UserError(
                "no pinned trial is made for this defect",
                where=f"--defect {printable(each, 20)}",
                remedy=f"choose from {', '.join(DEFECTS)}",
            )
    return named


def said(choice: Choice) -> dict[str, object]:
    """The options that the record keeps."""
    return {
        "defects": list(choice.defects),
        "trials": choice.trials,
        "unpoisoned": choice.unpoisoned,
        "until_shown": choice.until_shown,
    }
