"""`llama-blackbox verify directed`."""

from __future__ import annotations

from typing import Annotated

import typer

from collector.lab.verify import options as opt
from collector.lab.verify.directed.method import TRIALS, Plan, concluding, directed_trials
from collector.lab.verify.directed.points import DEFECTS, listing, unknown_defects
from collector.lab.verify.outputs import deliver
from collector.lab.verify.session import run
from collector.lab.verify.subject import Wanted

Defects = Annotated[
    list[str] | None,
    typer.Option("--defect", help=f"{', '.join(DEFECTS)}; may be repeated; all of them by default"),
]
Points = Annotated[
    list[str] | None,
    typer.Option("--point", help=f"hold only here; may be repeated. Points: {listing()}"),
]


def directed(
    version: opt.Version = None,
    server_bin: opt.ServerBin = None,
    build: opt.Build = None,
    fix: opt.Fix = None,
    asan: opt.Asan = False,
    model: opt.ModelFile = None,
    defect: Defects = None,
    point: Points = None,
    trials: opt.Trials = None,
    seed: opt.Seed = 0,
    json: opt.Json = None,
    junit: opt.Junit = None,
    reproducer: opt.Reproducer = None,
    output: opt.Output = None,
    update_catalogue: opt.UpdateCatalogue = False,
) -> int:
    """D1, D2, D3 without luck: gdb holds the request's own thread until the server sleeps, then lets go.

    5 trials per defect by default, and at least 5 that reached their window before a build is called sound.
    """
    unknown_defects(defect or ())
    plan = Plan(tuple(defect or ()), tuple(point or ()), trials or TRIALS)
    concluded = plan.concluded
    outputs = opt.Outputs(json, junit, reproducer, output, update_catalogue)
    made = run(
        "directed",
        directed_trials(plan),
        concluding(plan),
        Wanted(version, server_bin, build, fix, asan, model),
        outputs,
        seed=seed,
        options={"defects": concluded, "points": [each.name for each in plan.chosen], "trials": plan.trials},
    )
    return deliver(made, outputs)
