"""Two servers through the same sleeps, one with a draft model and one without: a trial for each sleep."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from analyzers.contracts.trials import ANSWERED, INCONCLUSIVE, LEAKED, Trial
from analyzers.errors import UserError
from collector.lab.reference.allocator import SANITIZER
from collector.lab.reference.conditions import asleep_by_props, sleeps
from collector.lab.reference.gguf import ModelSpec, cached_model
from collector.lab.reference.server import RunningServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.leak.memory import STEADY_MALLOC, Resident, maps, resident
from collector.lab.verify.session import Bench

MIB = 1 << 20
# 33 MiB of weights and 16 MiB of cache: ten times what stays of a freed draft (0.8 to 3.2 MiB).
DRAFT = ModelSpec(embedding=256, layers=4, feed_forward=256, padding_mib=24)
CONTEXT = 4096  # tokens: the draft's cache is sized by it
IDLE_SECONDS = 1
SLEEP_DEADLINE = 15.0  # a limit of one second, the loop's tick of one second, and a busy machine
# Of the draft's file: freed, the difference is near 0 (0.02 to 0.06); kept, it is near 1 (1.01 to 1.05).
LOADED_SHARE = KEPT_SHARE = 0.5
# One token is enough to wake; longer answers of a random model break the parser of builds before b9538.
WAKE = {"prompt": "hello", "n_predict": 1, "temperature": 0, "cache_prompt": False}
ROUTE = "POST /completion"
HELP_DEADLINE = 20.0
SPEC_TYPE = "--spec-type"


@dataclass(frozen=True)
class Reading:
    """One cycle of one server: what it held awake, after an answer, and asleep, once unloading was over."""

    awake: Resident
    asleep: Resident
    mapped: bool  # the draft's file, while asleep


def leak_trials(bench: Bench, cycles: int) -> Iterator[Trial]:
    """One trial for each of ``cycles`` sleeps. Raises UserError for an ASan build, whose quarantine holds
    whatever is freed, and for any other allocator that is not glibc's."""
    if bench.chosen.subject.asan:
        raise _keeps(SANITIZER)
    draft = cached_model(DRAFT)
    plain = replace(
        bench.spec,
        idle_seconds=IDLE_SECONDS,
        context=CONTEXT,
        environment={**bench.spec.environment, **STEADY_MALLOC},
    )
    bench.say(
        f"{cycles} sleeps of a server with a draft of {draft.stat().st_size / MIB:.0f} MiB and one without"
    )
    with bench.lab.start(plain) as control, bench.lab.start(with_draft(plain, draft)) as subject:
        if found := control.allocator or subject.allocator:
            raise _keeps(found)
        for number in range(1, cycles + 1):
            yield _trial(number, subject, control, draft)


def _keeps(allocator: str) -> UserError:
    """STEADY_MALLOC speaks to glibc alone; others give memory back late, or never."""
    if allocator == SANITIZER:
        what = "an ASan build keeps freed memory, so its memory says nothing about a leak"
        return UserError(what, where="verify leak", remedy="test the same build without AddressSanitizer")
    return UserError(
        f"the server's memory is kept by {allocator}, which does not give it back when it is freed",
        where="verify leak",
        remedy="test a build that uses glibc's malloc, without LD_PRELOAD",
    )


def with_draft(spec: ServerSpec, draft: Path) -> ServerSpec:
    """Newer native builds drop a draft model whose kind of drafting is not named."""
    named = spec.binary is not None and SPEC_TYPE in _help(spec)
    more = (SPEC_TYPE, "draft-simple") if named else ()
    return replace(spec, draft=draft, arguments=(*spec.arguments, *more))


def _help(spec: ServerSpec) -> str:
    from collector.lab.reference.spec import environment

    try:
        done = subprocess.run(
            [str(spec.binary), "--help"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(spec),
            timeout=HELP_DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _trial(number: int, subject: RunningServer, control: RunningServer, draft: Path) -> Trial:
    began = time.monotonic()
    woken = [_awake(server) for server in (control, subject)]
    plain, drafted = (
        _asleep(server, awake, number, draft) for server, awake in zip((control, subject), woken, strict=True)
    )
    size = draft.stat().st_size
    common = {"number": number, "defect": "D5", "route": ROUTE, "state": f"sleep {number}"}
    spent = round(time.monotonic() - began, 3)
    if plain is None or drafted is None:
        which = "without" if plain is None else "with"
        note = f"the server {which} a draft did not wake and sleep again"
        return Trial(outcome=INCONCLUSIVE, reached=False, notes=[note], trial_seconds=spent, **common)
    return judged(common, plain, drafted, size, spent)


def judged(common: dict[str, object], plain: Reading, drafted: Reading, size: int, spent: float) -> Trial:
    """The trial of one cycle. Memory figures are MiB; ``kept`` is what the draft's server holds more than
    its twin while both sleep."""
    loaded, kept = drafted.awake.rss - plain.awake.rss, drafted.asleep.rss - plain.asleep.rss
    told = {
        "draft_mib": round(size / MIB, 2),
        "loaded_mib": round(loaded / MIB, 2),
        "kept_mib": round(kept / MIB, 2),
        "kept_anonymous_mib": round((drafted.asleep.anonymous - plain.asleep.anonymous) / MIB, 2),
        "pss_mib": round(drafted.asleep.pss / MIB, 2),
        "draft_mapped": drafted.mapped,
    }
    if loaded < LOADED_SHARE * size:
        note = f"the draft was not in memory while awake ({loaded / MIB:.1f} of {size / MIB:.1f} MiB)"
        return Trial.model_validate(
            {
                **common,
                **told,
                "outcome": INCONCLUSIVE,
                "reached": False,
                "notes": [note],
                "trial_seconds": spent,
            }
        )
    outcome = LEAKED if kept >= KEPT_SHARE * size else ANSWERED
    note = f"asleep it holds {kept / MIB:.1f} MiB more than its twin, of a draft of {size / MIB:.1f} MiB"
    return Trial.model_validate(
        {**common, **told, "outcome": outcome, "notes": [note], "trial_seconds": spent}
    )


def _awake(server: RunningServer) -> Resident | None:
    answered = server.post("/completion", WAKE).status == 200
    return resident(server.pid) if answered and not server.finished else None


def _asleep(server: RunningServer, awake: Resident | None, number: int, draft: Path) -> Reading | None:
    """/props answers when unloading is over: the reading is always of the same point of the cycle."""
    if awake is None or not server.wait_until(sleeps(number), SLEEP_DEADLINE):
        return None
    if not server.wait_until(asleep_by_props, SLEEP_DEADLINE) or server.finished:
        return None
    asleep = resident(server.pid)
    return Reading(awake, asleep, maps(server.pid, draft)) if asleep else None
