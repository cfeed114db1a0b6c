"""`llama-blackbox verify leak`."""

from __future__ import annotations

from typing import Annotated

import typer

from collector.lab.verify import options as opt
from collector.lab.verify.leak.conclusion import conclude_leak
from collector.lab.verify.leak.cycles import leak_trials
from collector.lab.verify.outputs import deliver
from collector.lab.verify.session import run
from collector.lab.verify.subject import Wanted

CYCLES = 20
FEWEST_CYCLES = 6  # two of warm-up and four for a slope

Cycles = Annotated[int, typer.Option("--cycles", min=FEWEST_CYCLES, help="sleeps to measure")]


def leak(
    version: opt.Version = None,
    server_bin: opt.ServerBin = None,
    build: opt.Build = None,
    fix: opt.Fix = None,
    cycles: Cycles = CYCLES,
    json: opt.Json = None,
    junit: opt.Junit = None,
    output: opt.Output = None,
    update_catalogue: opt.UpdateCatalogue = False,
) -> int:
    """D5: does a draft model stay in memory while the server sleeps? Measured beside a twin without one.

    Both models are generated, and nothing is drawn at random: there is no --model and no --seed. The
    reproducer of the other methods shows D1 to D3 alone.

    Exit status: 0 sound, 1 the draft stays, 2 server or command line unusable, 125 inconclusive.
    """
    outputs = opt.Outputs(json=json, junit=junit, folder=output, update_catalogue=update_catalogue)
    wanted = Wanted(version=version, server_bin=server_bin, build=build, fix=fix)
    made = run(
        "leak",
        lambda bench: leak_trials(bench, cycles),
        conclude_leak,
        wanted,
        outputs,
        options={"cycles": cycles},
    )
    return deliver(made, outputs)
