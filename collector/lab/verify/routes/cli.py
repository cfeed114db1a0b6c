"""`llama-blackbox verify routes`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from analyzers.cli.output import printable_json
from analyzers.contracts.routes import BROKEN, KEPT, STATES, RouteBuild, RouteMatrix, RouteTrial, matrix_json
from analyzers.contracts.trials import (
    EXIT_DEFECT,
    EXIT_INCONCLUSIVE,
    EXIT_INTERRUPTED,
    EXIT_SOUND,
    EXIT_UNUSABLE,
    TrialRun,
)
from analyzers.errors import UserError
from analyzers.render.matrix import matrix_svg, print_matrix
from analyzers.version import __version__
from collector.lab.reference.output import printable
from collector.lab.verify import options, outputs
from collector.lab.verify.consent import consented
from collector.lab.verify.routes import foreign
from collector.lab.verify.routes.collect import build_of, matrix_of
from collector.lab.verify.routes.conclude import conclude
from collector.lab.verify.routes.fitting import (
    demand_allowed,
    demand_ours,
    demand_single_stream,
    demand_theirs,
)
from collector.lab.verify.routes.survey import Survey
from collector.lab.verify.routes.table import Route, chosen_routes
from collector.lab.verify.session import run
from collector.lab.verify.subject import Wanted, no_sleep_mode

API_KEY_LIMIT = 4096

Versions = Annotated[
    list[str] | None, typer.Option("--version", help="xllamacpp version to ask; may be given again")
]
ServerBins = Annotated[
    list[Path] | None, typer.Option("--server-bin", help="a native llama-server to ask; may be given again")
]
Builds = Annotated[
    list[int] | None, typer.Option("--build", help="ask the native reference build; may be given again")
]
Routes = Annotated[
    list[str] | None, typer.Option("--route", help='only this one, like "GET /props"; may be given again')
]
States = Annotated[list[str] | None, typer.Option("--state", help="only this state; may be given again")]
Sample = Annotated[
    int | None, typer.Option("--sample", min=1, help="only so many requests, drawn by the seed")
]
Picture = Annotated[
    str | None, typer.Option("--picture", help="write the matrix as an SVG picture; - is standard output")
]
TargetUrl = Annotated[
    str | None, typer.Option("--target", help="ask a running server, as it is found; needs --touch-host")
]
TouchHost = Annotated[
    str | None, typer.Option("--touch-host", help="the host of --target: says that it is yours to touch")
]
AllRoutes = Annotated[
    bool, typer.Option("--all-routes", help="with --target: also calls that wake it or make it work")
]
ApiKeyFile = Annotated[
    Path | None, typer.Option("--api-key-file", help="with --target: a file that holds its API key")
]


@dataclass(frozen=True)
class Choice:
    """What is asked, and where the results go."""

    routes: tuple[Route, ...]
    states: tuple[str, ...]
    sample: int | None
    seed: int
    outputs: options.Outputs


def routes(
    version: Versions = None,
    server_bin: ServerBins = None,
    build: Builds = None,
    fix: options.Fix = None,
    asan: options.Asan = False,
    model: options.ModelFile = None,
    route: Routes = None,
    state: States = None,
    sample: Sample = None,
    target: TargetUrl = None,
    touch_host: TouchHost = None,
    all_routes: AllRoutes = False,
    api_key_file: ApiKeyFile = None,
    seed: options.Seed = 0,
    json: options.Json = None,
    picture: Picture = None,
    junit: options.Junit = None,
    reproducer: options.Reproducer = None,
    output: options.Output = None,
    update_catalogue: options.UpdateCatalogue = False,
) -> int:
    """Ask every route in every state: does it answer, wake the server, keep it awake, crash it?

    Exit status: 0 every promise kept and every answer right, 1 a defect or a broken promise, 2 server or
    command line unusable (a build without sleep mode too), 125 inconclusive: with --target, nothing that is
    promised was seen, or the server stopped answering.
    """
    places = options.Outputs(json, junit, reproducer, output, update_catalogue, picture)
    choice = Choice(_routes(route), _states(state), sample, seed, places)
    if target is not None:
        server = {"version": version, "server_bin": server_bin, "build": build, "fix": fix, "asan": asan}
        demand_theirs(places, **server, model=model, state=state, sample=sample, seed=seed)
        return _foreign(target, touch_host, all_routes, api_key_file, bool(route), choice)
    demand_ours(touch_host=touch_host, all_routes=all_routes, api_key_file=api_key_file)
    subjects = wanted(version, server_bin, build, Wanted(fix=fix, asan=asan, model=model))
    return _own(subjects, choice)


def wanted(
    versions: Sequence[str] | None,
    binaries: Sequence[Path] | None,
    builds: Sequence[int] | None,
    shared: Wanted,
) -> list[Wanted]:
    """One subject for each that is named, or the newest wheel at hand when none is."""
    named = [replace(shared, version=each, fix=None, asan=False) for each in versions or ()]
    named += [replace(shared, server_bin=each, fix=None, asan=False) for each in binaries or ()]
    named += [replace(shared, build=each) for each in builds or ()]
    return named or [shared]


def _routes(names: list[str] | None) -> tuple[Route, ...]:
    try:
        return chosen_routes(tuple(names or ()))
    except KeyError as error:
        raise UserError(
            "no such route in the table",
            where=f"--route {printable(str(error.args[0]), 80)}",
            remedy='name one like "GET /props" or /props',
        ) from None


def _states(names: list[str] | None) -> tuple[str, ...]:
    for name in names or ():
        if name not in STATES:
            raise UserError(
                "no such state",
                where=f"--state {printable(name, 40)}",
                remedy=f"choose from {', '.join(STATES)}",
            )
    return tuple(state for state in STATES if not names or state in names)


def _own(subjects: list[Wanted], choice: Choice) -> int:
    """Survey the subjects one after the other; what is finished is written even when a later one fails."""
    numbers = range(len(subjects)) if len(subjects) > 1 else (None,)
    demand_single_stream(choice.outputs, len(subjects))
    for number in numbers:
        outputs.demand_writable(numbered(choice.outputs, number))
    builds: list[RouteBuild] = []
    statuses: list[int] = []
    last: TrialRun | None = None
    try:
        for number, subject in zip(numbers, subjects, strict=True):
            last, built = _survey(subject, choice, number)
            builds.append(built)
            statuses.append(_deliver(last, built, choice, number))
            if last.interrupted:
                break
    finally:
        if last is not None:
            deliver_matrix(matrix_of(builds, last), choice)
    status = worst(statuses)
    if status == EXIT_UNUSABLE:
        raise no_sleep_mode(", ".join(built.subject.name for built in builds if not built.sleeps))
    return status


def _survey(subject: Wanted, choice: Choice, number: int | None) -> tuple[TrialRun, RouteBuild]:
    places = numbered(choice.outputs, number)
    survey = Survey(
        choice.routes,
        choice.states,
        keep=places.folder is not None,
        sample=choice.sample,
        own_model=subject.model is not None,
    )
    said = {"states": list(choice.states), "routes": len(choice.routes), "sample": choice.sample}
    finished = run("routes", survey, conclude, subject, places, seed=choice.seed, options=said)
    return finished, build_of(finished, survey)


def _deliver(finished: TrialRun, built: RouteBuild, choice: Choice, number: int | None) -> int:
    """Findings, JUnit and overlay of one build; the matrix stands for --json. A build that has no sleep mode
    cannot have its defects."""
    if not built.sleeps:
        return EXIT_UNUSABLE
    places = replace(numbered(choice.outputs, number), json=None)
    return outputs.deliver(finished, places, outputs.voice_for(choice.outputs))


def numbered(places: options.Outputs, number: int | None) -> options.Outputs:
    """With several subjects, each has its own folders and JUnit file: NAME-1, NAME-2 …"""
    if number is None:
        return places
    name = f"build-{number + 1}"
    folder, reproducer = (each and each / name for each in (places.folder, places.reproducer))
    junit = places.junit
    if junit:
        path = Path(junit)
        junit = str(path.with_name(f"{path.stem}-{number + 1}{path.suffix}"))
    return replace(places, folder=folder, junit=junit, reproducer=reproducer)


def deliver_matrix(matrix: RouteMatrix, choice: Choice) -> None:
    """The table on the terminal, the document and the picture where they were asked for."""
    voice = outputs.voice_for(choice.outputs)
    print_matrix(matrix, Console(file=voice.file, highlight=False))
    if choice.outputs.json:
        outputs.put(choice.outputs.json, matrix_json(matrix), printable_json)
    if choice.outputs.picture:
        outputs.put(choice.outputs.picture, matrix_svg(matrix))


def worst(statuses: Sequence[int]) -> int:
    """A defect outranks what cannot be tried or stayed open, and an interruption all: it has no verdict."""
    for status in (EXIT_INTERRUPTED, EXIT_DEFECT, EXIT_UNUSABLE, EXIT_INCONCLUSIVE):
        if status in statuses:
            return status
    return EXIT_SOUND


def _foreign(
    url: str, touch_host: str | None, all_routes: bool, key_file: Path | None, named: bool, choice: Choice
) -> int:
    """A running server: harmless calls in the state it is found in, unless all are asked for. ``named``: the
    routes are those that the user named."""
    target = consented(url, touch_host)
    left = foreign.allowed(choice.routes, all_routes)
    if named:
        demand_allowed(choice.routes, left)
    outputs.demand_writable(choice.outputs)
    started = time.time()
    ask = foreign.asker(target, _api_key(key_file))
    found = foreign.find(target, ask)
    voice = outputs.voice_for(choice.outputs)
    voice.tell(f"{target.name}: {found.name}, {'asleep' if found.sleeping else 'awake'}")
    trials: list[RouteTrial] = []
    interrupted = False
    try:
        for trial in foreign.survey(ask, found, left):
            trials.append(trial)
            voice.tell(f"  {trial.state} {trial.route}: {trial.status or trial.outcome}")
    except KeyboardInterrupt:
        interrupted = True
    built = foreign.build_of(found, trials, time.time() - started)
    built = built.model_copy(update={"interrupted": interrupted})
    day = time.strftime("%Y-%m-%d", time.gmtime(started))
    deliver_matrix(RouteMatrix(tool=__version__, date=day, builds=[built]), choice)
    voice.tell(foreign.conclusion(trials, found))
    return EXIT_INTERRUPTED if interrupted else foreign_status(trials)


def foreign_status(trials: Sequence[RouteTrial]) -> int:
    """A server that stopped answering kept no promise, and neither did one of which none could be seen."""
    if any(trial.promise == BROKEN for trial in trials):
        return EXIT_DEFECT
    silent = any(not trial.reached for trial in trials)
    kept = any(trial.promise == KEPT for trial in trials)
    return EXIT_SOUND if kept and not silent else EXIT_INCONCLUSIVE


def _api_key(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        with path.open(encoding="utf-8") as file:
            key = file.read(API_KEY_LIMIT).strip()
    except (OSError, UnicodeDecodeError):
        key = ""
    if not key or not key.isprintable():
        raise UserError("no API key in it", where=printable(str(path)), remedy="name a file with one line")
    return key
