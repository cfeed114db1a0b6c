"""Rules for a server that is the worse for its sleeps: memory kept, layers or speed lost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from analyzers.contracts.watched import MemoryFact
from analyzers.verdict.case import Case, Seen, ids_of
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Ask, Finding
from analyzers.verdict.sleep import SleepStory

# Sleeps compared: the first fills caches (0.1-0.4 MiB each until the third, measured), so it does not count.
WARM_UP_CYCLES = 1
MIN_CYCLES = 4
# One look can fall into an unload that is under way; the same file at two sleeps cannot.
HELD_CYCLES = 2
# A constant remainder per device and the allocator's drift (0.8-3.2 MiB in 20 sleeps, measured) are none.
MIN_GROWTH = 16 << 20
MIB = 1 << 20
# One slow answer is a busy machine: so many on each side, and the fastest after against the slowest before.
MIN_ANSWERS = 3
SLOWER = 1.5
MEMORY_ASK = Ask(
    "the memory that the process holds while it sleeps, for five sleeps at least",
    "what stays and what grows look alike until the same point of several cycles is compared",
    "while sleep 60; do grep -E 'Rss|Anonymous' /proc/PID/smaps_rollup; "
    "nvidia-smi --query-compute-apps=pid,used_memory --format=csv; done",
)
TIMED_ASK = Ask(
    "the same small request timed before a sleep and twice after a wake",
    "the first answer after a wake pays for the load and the empty cache; only the second one compares",
    "curl -so /dev/null -w '%{time_total}\\n' http://HOST:PORT/completion "
    '-d \'{"prompt":"hi","n_predict":16}\'',
)


def sleep_leak(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """A model file that stays mapped while asleep, or memory that grows from sleep to sleep."""
    if ending.known:
        return None
    asleep = [seen for seen in case.memory if seen.fact.phase == "asleep" and not seen.forgeable]
    return _held(case, asleep, story) or _growing(asleep, story) or _shrinking_device(case, story)


def _held(case: Case, asleep: Sequence[Seen[MemoryFact]], story: SleepStory) -> Finding | None:
    """D5 when it is another model than the server's own: a draft. Its own may be caught in mid-unload."""
    main = {PurePosixPath(seen.fact.model).name for seen in case.settings if seen.fact.model}
    held = [seen for seen in asleep if seen.fact.held_model_files]
    cycles = {seen.fact.cycle for seen in held if seen.fact.cycle is not None}
    if not held or len(held) < len(asleep):
        return None
    names = ", ".join(held[-1].fact.held_model_files)
    another = bool(main) and not main.intersection(held[-1].fact.held_model_files)
    return _leak(
        "strong" if another and len(cycles) >= HELD_CYCLES else "weak",
        "A model stays in memory while the server sleeps.",
        (
            f"{names} is still mapped by the sleeping process, in each of {len(held)} looks",
            "a sleeping server has freed its model: whatever stays mapped was forgotten",
        ),
        ids_of(held[:1], held[-2:]),
        story,
        "D5" if another else None,
    )


def _growing(asleep: Sequence[Seen[MemoryFact]], story: SleepStory) -> Finding | None:
    for where, device in {(seen.fact.where, seen.fact.device) for seen in asleep}:
        rows = [s for s in asleep if (s.fact.where, s.fact.device) == (where, device)]
        kept = _by_cycle(rows)[WARM_UP_CYCLES:]
        values = [s.fact.bytes if s.fact.bytes is not None else -(s.fact.free_bytes or 0) for s in kept]
        if len(values) < MIN_CYCLES or not _rises(values):
            continue
        each = (values[-1] - values[0]) / (len(values) - 1) / MIB
        name = f"device memory ({device})" if where == "device" else "host memory"
        return _leak(
            "strong",
            "Memory is lost at each sleep.",
            (
                f"{name} held while asleep rose at every one of {len(values)} sleeps, by {each:.0f} MiB each",
                "the figures are of the same point of the cycle, so work in progress does not explain them",
            ),
            ids_of(kept[:1], kept[-1:]),
            story,
        )
    return None


def _by_cycle(rows: Sequence[Seen[MemoryFact]]) -> list[Seen[MemoryFact]]:
    """The last look of each sleep, in the order of the sleeps; looks without a number are left out."""
    last = {seen.fact.cycle: seen for seen in rows if seen.fact.cycle is not None}
    return [last[cycle] for cycle in sorted(last) if _figure(last[cycle].fact)]


def _figure(fact: MemoryFact) -> bool:
    return fact.bytes is not None or fact.free_bytes is not None


def _rises(values: Sequence[float]) -> bool:
    steps = [after - before for before, after in pairwise(values)]
    return min(steps) > 0 and values[-1] - values[0] >= MIN_GROWTH


def _shrinking_device(case: Case, story: SleepStory) -> Finding | None:
    """The log of one life: what each load found free on a device, after the first one."""
    if not story.slept:
        return None
    for device in {seen.fact.model for seen in case.events("device-free")}:
        rows = [s for s in case.events("device-free") if s.fact.model == device and not s.forgeable]
        free = [-(s.fact.value or 0.0) * MIB for s in rows[WARM_UP_CYCLES:]]
        if len(free) >= MIN_CYCLES and _rises(free):
            return _leak(
                "weak",
                "Each load finds less free device memory than the one before.",
                (
                    f"{device}: {-free[0] / MIB:.0f} MiB were free at the second load, "
                    f"{-free[-1] / MIB:.0f} at the last of {len(rows)}",
                    "another process on the device looks alike: only figures of this process prove it",
                ),
                ids_of(rows[:1], rows[-1:]),
                story,
            )
    return None


def _leak(
    confidence: str,
    summary: str,
    reasons: tuple[str, ...],
    witnesses: tuple[str, ...],
    story: SleepStory,
    defect: str | None = None,
) -> Finding:
    return Finding(
        "SLEEP-LEAK",
        "sleep",
        "asleep" if story.phase == "unknown" else story.phase,
        confidence,
        summary,
        defect,
        reasons=reasons,
        witnesses=(*witnesses, *story.witnesses),
        asks=() if confidence == "strong" else (MEMORY_ASK,),
    )


def degraded(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """Fewer layers on the device after a wake, or equal requests that stay slower."""
    if ending.known or not story.slept:
        return None
    return _fewer_layers(case, story) or _slower(case, story)


def _fewer_layers(case: Case, story: SleepStory) -> Finding | None:
    rows = [seen for seen in case.events("offloaded") if not seen.forgeable and seen.fact.value is not None]
    rows = [seen for seen in rows if seen.fact.total == rows[0].fact.total]  # a draft prints its own line
    wakes = [seen for seen in case.events("exit-sleep") if not seen.forgeable]
    first, last = (rows[0], rows[-1]) if len(rows) > 1 else (None, None)
    if first is None or last is None or not wakes or (last.fact.value or 0) >= (first.fact.value or 0):
        return None
    if not case.position(first.id) < case.position(wakes[-1].id) < case.position(last.id):
        return None
    return Finding(
        "SLEEP-DEGRADED",
        "gpu",
        story.phase,
        "strong",
        "After a wake less of the model is on the device than at the start.",
        reasons=(
            f"the first load placed {first.fact.value:.0f} layers on the device, the one after the wake "
            f"{last.fact.value:.0f}",
            "the layers that did not fit run on the CPU, so every answer is slower until a restart",
        ),
        witnesses=(first.id, wakes[-1].id, last.id),
    )


def _slower(case: Case, story: SleepStory) -> Finding | None:
    for route in {seen.fact.route for seen in case.answers}:
        timed = [s for s in case.answers if s.fact.route == route and s.fact.seconds and s.fact.status == 200]
        before = [s for s in timed if s.fact.cycle == 0]
        after = [s for s in timed if (s.fact.cycle or 0) > 0 and (s.fact.since_wake or 0) > 1]
        if min(len(before), len(after)) < MIN_ANSWERS:
            continue
        slowest = max(seen.fact.seconds or 0.0 for seen in before)
        fastest = min(seen.fact.seconds or 0.0 for seen in after)
        if fastest < SLOWER * slowest:
            continue
        return Finding(
            "SLEEP-DEGRADED",
            "wake",
            story.phase,
            "weak",
            "After a wake the same requests take longer, and not only the first one.",
            reasons=(
                f"{route}: at most {slowest:.3f} s before any sleep, at least {fastest:.3f} s after a wake",
                "the first answer after each wake, which pays for the load, is not counted",
            ),
            witnesses=(*ids_of(before[:1], after[-1:]), *story.witnesses),
            asks=(TIMED_ASK,),
        )
    return None
