"""Rules for a server that seems to hang and does not, and for one whose HTTP threads are all taken."""

from __future__ import annotations

from analyzers.contracts.facts import StackFact
from analyzers.verdict.asks import LOOK_ASK
from analyzers.verdict.case import Case, ids_of
from analyzers.verdict.ending import Ending
from analyzers.verdict.finding import Finding
from analyzers.verdict.hangs import lives
from analyzers.verdict.healthy import HEALTH_ROUTES, HTTP_OK
from analyzers.verdict.sleep import SleepStory
from analyzers.verdict.watch import BUSY_SHARE, Watch, last_of, unanswered

LOADING_STATUS = 503  # what /health answers until the model is loaded
POOL, LISTENER = "ThreadPool::worker", "Server::listen_internal"
ACCEPTING = ("accept", "poll", "select", "epoll_wait")  # in these the listener waits for the next client
TRANSITIONS = ("unloading", "waking")
WITNESS_LIMIT = 4  # of hundreds of equal HTTP threads a few say it


def http_taken(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """/health, which touches no queue, gets no answer although the process runs and its loop is not stuck."""
    health = last_of(case, *HEALTH_ROUTES)
    if not lives(case, ending) or health is None or not unanswered(health.fact):
        return None
    # Of two snapshots of one thread the later one counts.
    last = {s.fact.tid: s for s in case.stacks if s.fact.live and s.fact.frames}.values()
    pool = [seen for seen in last if _in(seen.fact, POOL)]
    free = [seen for seen in pool if _free(seen.fact)]
    deaf = [seen for seen in last if _in(seen.fact, LISTENER) and not _accepts(seen.fact)]
    unread = [seen for seen in case.sockets if seen.fact.recv_queue]
    all_taken = bool(pool) and not free
    if not (all_taken or deaf or (unread and not pool)):
        return None
    return Finding(
        "HANG-HTTP",
        "configuration",
        _live_phase(case, story),
        "strong" if all_taken or deaf else "weak",
        "No HTTP thread takes new requests; the server's queue is not what is stuck.",
        reasons=tuple(
            filter(
                None,
                (
                    "/health got no answer, and it needs nothing but an HTTP thread",
                    f"all {len(pool)} HTTP threads of the snapshot are held by a client" if all_taken else "",
                    "the listener cannot take another connection (it waits to try again)" if deaf else "",
                    f"{len(unread)} connections hold bytes that the server has never read" if unread else "",
                ),
            )
        ),
        witnesses=(health.id, *ids_of(deaf, pool[:WITNESS_LIMIT], unread[:WITNESS_LIMIT])),
        asks=() if all_taken or deaf else (LOOK_ASK,),
    )


def load_slow(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """The first load is under way and bytes, memory or CPU time move."""
    if not lives(case, ending) or story.started:
        return None
    health = last_of(case, *HEALTH_ROUTES)
    told = health is not None and health.fact.status == LOADING_STATUS
    loading = [r for r in case.readings if r.stack.live and any(_loads(f.function) for f in r.stack.frames)]
    if not (told or loading or story.phase == "loading"):
        return None
    watch = Watch(case)
    share = watch.cpu_share
    if not (watch.bytes_moved or (share is not None and share >= BUSY_SHARE)):
        return None
    sure = watch.bytes_moved and (told or bool(loading))
    return Finding(
        "LOAD-SLOW",
        "unknown",
        "loading",
        "strong" if sure else "weak",
        "The server is still loading its model, and the load moves.",
        reasons=(
            "/health says that the model is loading" if told else "the log or a thread is still in the load",
            f"bytes were read or memory grew in the {watch.span:.1f} s between two looks"
            if watch.bytes_moved
            else f"it used {100 * (share or 0):.0f} % of a CPU between two looks; no byte was seen to move",
        ),
        witnesses=(
            *((health.id,) if health and told else ()),
            *watch.look_ids,
            *(r.id for r in loading[-1:]),
        ),
    )


def transition(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """/health answers and /props waits: the model is being freed or loaded again, which is not a hang."""
    health, props = last_of(case, *HEALTH_ROUTES), last_of(case, "/props", "/models", "/v1/models")
    if not lives(case, ending) or health is None or props is None or not unanswered(props.fact):
        return None
    watch = Watch(case)
    phase = _live_phase(case, story)
    if health.fact.status != HTTP_OK or phase not in (*TRANSITIONS, "unknown"):
        return None
    moving = watch.bytes_moved or (watch.cpu_share or 0.0) >= BUSY_SHARE
    inside = bool(watch.loops) and not watch.loops[-1][1].in_wait
    if not moving and not inside and phase == "unknown":
        return None
    sure = moving and phase in TRANSITIONS
    return Finding(
        "NOT-A-HANG",
        "wake" if phase == "waking" else "sleep" if phase == "unloading" else "unknown",
        phase,
        "strong" if sure else "weak",
        "The server is not down: its model is being freed or loaded again.",
        reasons=(
            "/health answers while /props waits: that is how a sleep or a wake looks from outside",
            "memory, bytes or CPU time move between two looks" if moving else "no second look shows movement",
        ),
        witnesses=(health.id, props.id, *watch.look_ids, *story.witnesses),
        asks=() if sure else (LOOK_ASK,),
    )


def moving(case: Case, ending: Ending, story: SleepStory) -> Finding | None:
    """There is work, and it moves: batches, answers, or at least the loop's CPU time inside a decode."""
    watch = Watch(case)
    if not lives(case, ending) or not (watch.waiting or watch.streams):
        return None
    share = watch.loop_cpu_share if watch.loop_cpu_share is not None else watch.cpu_share
    computes = (watch.computing or watch.compiling) and share is not None and share >= BUSY_SHARE
    if not (watch.decodes or watch.streams or computes):
        return None
    reasons = []
    if watch.decodes:
        reasons.append(f"{watch.decodes:,} batches were worked off between two readings of the counters")
    if watch.streams:
        reasons.append(f"{len(watch.streams)} clients were sent more between two looks")
    if computes:
        where = "the compiler of the GPU's runtime" if watch.compiling else "a decode"
        reasons.append(f"the loop is inside {where} and used {100 * (share or 0.0):.0f} % of a CPU")
    return Finding(
        "NOT-A-HANG",
        "request",
        _live_phase(case, story),
        "strong" if watch.decodes or watch.streams else "weak",
        "The server is slow, not stuck: its work moves.",
        reasons=tuple(reasons),
        witnesses=(*watch.look_ids, *_metrics(case), *ids_of(watch.streams[:WITNESS_LIMIT]), *watch.waiting),
        asks=() if watch.decodes or watch.streams else (LOOK_ASK,),
    )


def _metrics(case: Case) -> tuple[str, ...]:
    told = [seen for seen in case.probes if seen.fact.decodes is not None]
    return ids_of(told[:1], told[-1:])


def _live_phase(case: Case, story: SleepStory) -> str:
    loop = case.loop
    phase = loop.fact.phase if loop is not None else story.phase
    if phase == "unknown":
        phase = story.phase
    return "awake" if phase == "just-woken" else phase


def _in(stack: StackFact, part: str) -> bool:
    return any(part in (frame.function or "") for frame in stack.frames)


def _free(stack: StackFact) -> bool:
    """Of the pool's own code nothing but the worker itself is on the stack: it waits for a connection."""
    own = [f.function or "" for f in stack.frames if "httplib::" in (f.function or "")]
    return len(own) == 1 and POOL in own[0]


def _accepts(stack: StackFact) -> bool:
    top = stack.frames[0].function or ""
    return any(word in top for word in ACCEPTING)


def _loads(function: str | None) -> bool:
    return function is not None and ("load_model" in function or "llama_model_load" in function)
