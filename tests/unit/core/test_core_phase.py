"""The loop's phase from flags, call site, frames and registers: right or unknown, never wrong."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.facts import Frame, LoopFact, StackFact
from analyzers.core.loopframes import loop_frames
from analyzers.core.notes import read_core
from analyzers.core.phase import loop_state
from elfcore import MUTEX_WAIT, CoreBuilder, R, X, queue_memory, shared_object

QUEUE = 0x55E9_6798_8000
CONDITION = QUEUE + 296
STACK = 0x7F93_B000_0000
LIB = 0x7F93_C000_0000
RETURN = LIB + 4096 + 64  # where start_loop goes on, 64 bytes into the code
LOOP, HTTP = 3143, 3150
START_LOOP = "server_queue::start_loop(long)"
TAIL = (
    "init(common_params&, server_context&, std::string&, std::promise<int>)",
    "execute_native_thread_routine",
    "start_thread",
    "__clone3",
)
COND_WAIT = ("__futex_abstimed_wait_common", "pthread_cond_wait@@GLIBC_2.3.2")
TIMED_WAIT = ("__futex_abstimed_wait_common", "pthread_cond_timedwait@@GLIBC_2.3.2")
STD_WAIT = "std::condition_variable::wait(std::unique_lock<std::mutex>&)"
LAMBDA = (
    "std::_Function_handler<void (bool), server_context_impl::init()::{lambda(bool)#3}>"
    "::_M_invoke(std::_Any_data const&, bool&&)"
)
CACHED = "server_routes::update_cached_responses(bool)"
STORE_TRUE = bytes.fromhex("c64424 2f01")
STORE_FALSE = bytes.fromhex("c64424 4000")
INVOKE = bytes.fromhex("ff5318")  # call *0x18(%rbx)


def stack(*beneath: str, tid: int = LOOP, loop: str = START_LOOP, ip: int | None = RETURN) -> StackFact:
    frames = [Frame(function=name) for name in beneath]
    frames += [Frame(function=loop, ip=ip), *(Frame(function=name) for name in TAIL)]
    return StackFact(tid=tid, rung="eu-stack", frames=tuple(frames))


def builder(queue: bytes | None = None) -> CoreBuilder:
    made = CoreBuilder().thread(HTTP, rip=LIB, rsp=STACK + 0x8000)
    return made.load(QUEUE, queue) if queue is not None else made


def state(tmp_path: Path, made: CoreBuilder, *stacks: StackFact) -> LoopFact | None:
    """The loop's state without who holds the mutex, of which test_core_poor.py has its own tests."""
    fact = loop_state(read_core(made.write(tmp_path / "core")), stacks)
    return replace(fact, owner=None) if fact else None


def code(*instructions: bytes) -> bytes:
    """64 bytes of code that end with ``instructions``, then more."""
    return b"".join(instructions).rjust(64, b"\x90") + b"\xcc" * 64


# frames


@pytest.mark.parametrize(
    ("beneath", "phases"),
    [
        (TIMED_WAIT, {"awake"}),
        (("__futex_abstimed_wait_common", "pthread_cond_clockwait"), {"awake"}),
        (("___pthread_cond_timedwait64",), {"awake"}),
        ((*COND_WAIT, STD_WAIT), {"asleep"}),
        (("__pthread_cond_wait",), {"asleep"}),
        (
            (
                *COND_WAIT,
                STD_WAIT,
                "std::condition_variable::wait<server_queue::start_loop(long)::{lambda()#2}>(std::unique_lock)",
            ),
            {"asleep"},
        ),
        (("__GI___lll_lock_wake", "__GI___pthread_mutex_unlock_usercnt"), {"awake", "just-woken"}),
        (("pthread_mutex_lock",), {"awake", "just-woken"}),
        (("futex", "std::condition_variable::notify_all()"), {"just-woken"}),
        (("x", "server_queue::process_new_tasks(bool)"), {"awake"}),
        (("ggml_vec_dot", "server_context_impl::update_slots()"), {"awake"}),
        # a task that yields waits without a time-out, but not beneath start_loop itself
        ((*COND_WAIT, STD_WAIT, "server_queue::yield_to_queue(std::function<void ()>&&)"), {"awake"}),
        (("free", "common_init_result::~common_init_result()", LAMBDA), {"unloading"}),
        (("munmap", "llama_model::~llama_model()", LAMBDA), {"unloading"}),
        (
            ("server_context_impl::destroy()", "server_context_impl::handle_sleeping_state(bool)"),
            {"unloading"},
        ),
        (("read", "server_context_impl::load_model(common_params&)", LAMBDA), {"waking"}),
        # what lies nearer to start_loop decides: a load frees temporary things
        (
            ("llama_model::~llama_model()", "server_context_impl::load_model(common_params&)", LAMBDA),
            {"waking"},
        ),
        (("malloc", LAMBDA), {"unloading", "waking"}),
        (("malloc", CACHED), {"unloading", "waking"}),
        # a wait inside a callback is not the loop's own wait
        ((*COND_WAIT, "ggml_threadpool_free", CACHED), {"unloading", "waking"}),
        (("ggml_time_ms",), set()),
        ((), set()),
    ],
)
def test_the_frames_beneath_start_loop_allow_phases(beneath: tuple[str, ...], phases: set[str]) -> None:
    (loop,) = loop_frames([stack(*beneath)])
    assert loop.phases() == phases


@pytest.mark.parametrize(
    "function",
    [
        "server_queue::worker_loop()",
        "server_queue::start_loop(long)::{lambda()#1}::operator()() const",
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<server_queue::start_loop(long)::"
        "{lambda()#1}> > >::_M_run()",
        "server_queue::start_loops(long)",
        "my::server_queue_start_loop(long)",
        "_ZZN12server_queue10start_loopElENKUlvE_clEv",
    ],
)
def test_the_worker_is_not_the_loop(function: str) -> None:
    assert loop_frames([stack(*COND_WAIT, loop=function)]) == []


@pytest.mark.parametrize(
    "function",
    [
        "server_queue::start_loop(long)",
        "server_queue::start_loop(long) [clone .cold]",
        "server_queue::start_loop",
        "void server_queue::start_loop(long)",
        "_ZN12server_queue10start_loopEl",
    ],
)
def test_the_loop_is_known_by_each_spelling(function: str) -> None:
    assert len(loop_frames([stack(*COND_WAIT, loop=function)])) == 1


# flags, registers and frames together


@pytest.mark.parametrize("into", [40, 44, 32, 36])
@pytest.mark.parametrize(("sleeping", "timed", "phase"), [(0, True, "awake"), (1, False, "asleep")])
def test_the_loops_futex_word_gives_the_queue_in_old_and_new_glibc(
    tmp_path: Path, into: int, sleeping: int, timed: bool, phase: str
) -> None:
    # GIVEN the loop in a condition wait of its queue
    made = builder(queue_memory(QUEUE, sleeping=sleeping)).waiting(LOOP, CONDITION + into, timed)
    # WHEN judged with frames THEN three witnesses agree
    fact = state(tmp_path, made, stack(*(TIMED_WAIT if timed else (*COND_WAIT, STD_WAIT))))
    assert fact == LoopFact(
        phase, ("flags", "frames", "registers"), LOOP, bool(sleeping), False, 4_646_602, next_task=7
    )


def test_builds_with_two_deques_are_known(tmp_path: Path) -> None:
    made = builder(queue_memory(QUEUE, sleeping=1, deques=2)).waiting(LOOP, QUEUE + 216 + 40)
    fact = state(tmp_path, made, stack(*COND_WAIT))
    assert fact is not None
    assert (fact.phase, fact.sleeping) == ("asleep", True)


def test_without_symbols_the_timed_waiter_is_the_loop(tmp_path: Path) -> None:
    # GIVEN a request that waits on the queue's mutex, and the loop
    made = builder(queue_memory(QUEUE)).waiting(LOOP, CONDITION + 40, True)
    fact = state(tmp_path, made.waiting(9, QUEUE + 256, op=MUTEX_WAIT))
    assert fact == LoopFact("awake", ("flags", "registers"), LOOP, False, False, 4_646_602, next_task=7)


def test_without_symbols_a_free_mutex_and_the_flag_mean_asleep(tmp_path: Path) -> None:
    # GIVEN the loop and a request in the same untimed wait: which is which cannot be told
    made = builder(queue_memory(QUEUE, sleeping=1, stop=1))
    fact = state(tmp_path, made.waiting(LOOP, CONDITION + 40).waiting(9, CONDITION + 44))
    # THEN the phase is known and the thread is not
    assert fact == LoopFact("asleep", ("flags",), None, True, True, 4_646_602, next_task=7)


def test_without_symbols_a_held_mutex_leaves_the_phase_unknown(tmp_path: Path) -> None:
    made = builder(queue_memory(QUEUE, sleeping=1, lock=2, owner=LOOP)).thread(LOOP)
    fact = state(tmp_path, made.waiting(9, QUEUE + 352 + 40))
    assert fact is not None
    assert (fact.phase, fact.sleeping) == ("unknown", True)


def test_without_symbols_a_request_that_waits_for_the_wake_is_not_the_loop(tmp_path: Path) -> None:
    # GIVEN the loop loading again with the mutex held, and only the request in an untimed wait
    made = builder(queue_memory(QUEUE, sleeping=1, lock=2, owner=LOOP)).thread(LOOP)
    fact = state(tmp_path, made.waiting(9, CONDITION + 40))
    # THEN it is not called asleep
    assert fact is not None
    assert (fact.phase, fact.tid) == ("unknown", None)


def test_a_yielding_task_waits_without_time_out_and_is_awake(tmp_path: Path) -> None:
    made = builder(queue_memory(QUEUE)).waiting(LOOP, CONDITION + 40)
    frames = stack(*COND_WAIT, STD_WAIT, "server_queue::yield_to_queue(std::function<void ()>&&)")
    fact = state(tmp_path, made, frames)
    assert fact is not None
    assert (fact.phase, fact.how) == ("awake", ("flags", "frames", "registers"))


def test_a_mutex_wait_without_time_out_is_not_sleep(tmp_path: Path) -> None:
    # GIVEN the awake loop that waits for the mutex after its timed wait
    made = builder(queue_memory(QUEUE, lock=2, owner=HTTP))
    made.waiting(LOOP, QUEUE + 256, op=MUTEX_WAIT)
    # WHEN there are frames or none THEN it is awake
    fact = state(tmp_path, made, stack("__lll_lock_wait", "__pthread_mutex_cond_lock", *TIMED_WAIT))
    assert fact is not None
    assert (fact.phase, fact.how) == ("awake", ("flags", "frames"))
    assert state(tmp_path, made) == LoopFact("awake", ("flags",), None, False, False, 4_646_602, next_task=7)


def test_a_request_holding_the_mutex_does_not_hide_the_sleep(tmp_path: Path) -> None:
    made = builder(queue_memory(QUEUE, sleeping=1, lock=1, owner=HTTP)).waiting(LOOP, CONDITION + 40)
    fact = state(tmp_path, made, stack(*COND_WAIT))
    assert fact is not None
    assert fact.phase == "asleep"


def test_a_stopped_queue_is_stopping_wherever_the_loop_is(tmp_path: Path) -> None:
    made = builder(queue_memory(QUEUE, running=0)).waiting(LOOP, CONDITION + 40, True)
    fact = state(tmp_path, made, stack(*TIMED_WAIT))
    assert fact is not None
    assert (fact.phase, fact.how) == ("stopping", ("flags",))


@pytest.mark.parametrize(("sleeping", "frames"), [(1, TIMED_WAIT), (0, (*COND_WAIT, STD_WAIT))])
def test_witnesses_that_disagree_are_listed_and_decide_nothing(
    tmp_path: Path, sleeping: int, frames: tuple[str, ...]
) -> None:
    # GIVEN flags and frames that cannot both be true
    made = builder(queue_memory(QUEUE, sleeping=sleeping))
    made.waiting(LOOP, CONDITION + 40, timed=frames == TIMED_WAIT)
    fact = state(tmp_path, made, stack(*frames))
    # THEN both are shown and no flag is passed on
    assert fact is not None
    assert (fact.phase, fact.sleeping, fact.time_last_task_ms) == ("unknown", None, None)
    assert {entry.split(":")[0] for entry in fact.how} == {"flags", "frames", "registers"}


def test_frames_alone_are_enough_and_nothing_at_all_is_none(tmp_path: Path) -> None:
    # GIVEN a core without memory
    made = builder().waiting(LOOP, CONDITION + 40)
    fact = state(tmp_path, made, stack(*COND_WAIT))
    assert fact == LoopFact("asleep", ("frames", "registers"), LOOP, None, None, None)
    # and another program entirely
    assert state(tmp_path, made, StackFact(tid=1, frames=(Frame("main"),))) is None


def test_a_thread_that_the_core_lacks_is_judged_by_frames(tmp_path: Path) -> None:
    fact = state(tmp_path, builder(), stack(*TIMED_WAIT, tid=77))
    assert fact == LoopFact("awake", ("frames",), 77, None, None, None)


def test_two_servers_in_one_process_are_unknown(tmp_path: Path) -> None:
    made = builder(queue_memory(QUEUE, sleeping=1)).waiting(LOOP, CONDITION + 40)
    made.load(QUEUE + 0x10000, queue_memory(QUEUE + 0x10000)).waiting(9, CONDITION + 0x10000 + 40, True)
    fact = state(tmp_path, made, stack(*COND_WAIT), stack(*TIMED_WAIT, tid=9))
    assert fact is not None
    assert (fact.phase, len(fact.how)) == ("unknown", 2)
    assert state(tmp_path, made) is None
    # with the frames of one of them, its own futex word names its own queue
    fact = state(tmp_path, made, stack(*COND_WAIT))
    assert fact is not None
    assert (fact.phase, fact.sleeping) == ("asleep", True)


# the loop is busy: the queue is found by its registers, its stack, or another thread


def busy(
    beneath: tuple[str, ...], queue: bytes, words: tuple[int, ...], **registers: int
) -> tuple[CoreBuilder, StackFact]:
    made = builder(queue).thread(LOOP, rsp=STACK, **registers)
    made.load(STACK, struct.pack(f"<{len(words)}Q", *words) + bytes(4096))
    return made, stack(*beneath)


FREEING = ("free", "common_init_result::~common_init_result()", LAMBDA)
UNLOADING_QUEUE = queue_memory(QUEUE, sleeping=1, lock=2, owner=LOOP)


@pytest.mark.parametrize(
    ("words", "registers"),
    [
        ((), {"rbp": QUEUE}),
        ((1, 2, QUEUE, RETURN), {}),
        ((QUEUE + 8, RETURN, 7, QUEUE), {}),  # in start_loop's own frame
    ],
)
def test_the_queue_of_a_busy_loop_is_found_by_its_own_words(
    tmp_path: Path, words: tuple[int, ...], registers: dict[str, int]
) -> None:
    made, frames = busy(FREEING, UNLOADING_QUEUE, words, **registers)
    fact = state(tmp_path, made, frames)
    assert fact == LoopFact("unloading", ("flags", "frames"), LOOP, True, False, 4_646_602, next_task=7)


def test_words_beyond_start_loops_frame_are_left_alone(tmp_path: Path) -> None:
    # GIVEN a stale pointer far up the stack
    words = (RETURN, *(0,) * 200, QUEUE)
    made, frames = busy(FREEING, UNLOADING_QUEUE, words)
    fact = state(tmp_path, made, frames)
    assert fact is not None
    assert (fact.how, fact.sleeping) == (("frames",), None)


@pytest.mark.parametrize("word", [QUEUE + 352 + 44, QUEUE + 256])
def test_the_queue_of_a_busy_loop_is_found_by_another_waiter(tmp_path: Path, word: int) -> None:
    made, frames = busy(FREEING, UNLOADING_QUEUE, ())
    made.waiting(9, word, op=MUTEX_WAIT if word == QUEUE + 256 else 393)
    fact = state(tmp_path, made, frames)
    assert fact is not None
    assert (fact.phase, fact.sleeping) == ("unloading", True)


def test_two_fitting_queues_on_one_stack_are_not_guessed_between(tmp_path: Path) -> None:
    other = QUEUE + 0x10000
    made, frames = busy(FREEING, UNLOADING_QUEUE, (QUEUE, other, RETURN))
    made.load(other, queue_memory(other, sleeping=0))
    fact = state(tmp_path, made, frames)
    assert fact is not None
    assert (fact.phase, fact.how, fact.sleeping) == ("unloading", ("frames",), None)


@pytest.mark.parametrize(
    "damage",
    [
        (4, b"\x02"),  # running
        (5, b"\xa5"),  # sleeping: poisoned memory
        (8, b"\xff" * 8),  # negative time
        (16, b"\x00" * 8),  # a deque without a map
        (24, struct.pack("<Q", 3)),
        (32 + 80, struct.pack("<Q", 1)),  # second deque: current outside its node
        (256, struct.pack("<I", 3)),  # mutex word
        (256, struct.pack("<IIi", 0, 0, LOOP)),  # free but owned
        (256, struct.pack("<IIi", 1, 0, 99)),  # owned by nobody in this core
        (272, struct.pack("<I", 1)),  # not a plain mutex
        (1024 + 24, bytes(8)),  # the map does not point at the node
    ],
)
def test_memory_that_only_resembles_a_queue_is_not_one(tmp_path: Path, damage: tuple[int, bytes]) -> None:
    queue = bytearray(queue_memory(QUEUE, sleeping=1))
    at, new = damage
    queue[at : at + len(new)] = new
    made = builder(bytes(queue)).waiting(LOOP, CONDITION + 40)
    fact = state(tmp_path, made, stack(*COND_WAIT))
    assert fact is not None
    assert (fact.how, fact.sleeping) == (("frames", "registers"), None)


# the call site


def hosted(tmp_path: Path, text: bytes, dumped: bool = True, on_disk: bytes | None = None) -> CoreBuilder:
    path = tmp_path / "lib.so"
    image = shared_object(code=text)
    path.write_bytes(image if on_disk is None else on_disk)
    made = builder(UNLOADING_QUEUE).thread(LOOP, rbp=QUEUE, rsp=STACK).load(STACK, bytes(64))
    made.load(LIB, image[:4096], R).load(LIB + 4096, image[4096:8192] if dumped else b"", R | X, 4096)
    return made.file(LIB, LIB + 4096, 0, str(path)).file(LIB + 4096, LIB + 8192, 1, str(path))


@pytest.mark.parametrize("dumped", [True, False])
@pytest.mark.parametrize(("store", "phase"), [(STORE_TRUE, "unloading"), (STORE_FALSE, "waking")])
def test_the_callbacks_argument_tells_unloading_from_waking(
    tmp_path: Path, store: bytes, phase: str, dumped: bool
) -> None:
    # GIVEN code in the core, or only in the mapped file whose build-id is the core's
    made = hosted(tmp_path, code(store, b"\x90" * 16, INVOKE), dumped)
    fact = state(tmp_path, made, stack("malloc", CACHED))
    assert fact is not None
    assert (fact.phase, fact.how) == (phase, ("flags", "frames", "call-site"))


def test_a_frame_without_ip_is_placed_by_module_and_offset(tmp_path: Path) -> None:
    made = hosted(tmp_path, code(STORE_FALSE, INVOKE))
    frames = stack("malloc", CACHED).frames
    loop = Frame(START_LOOP, module=str(tmp_path / "lib.so"), offset=RETURN - LIB)
    placed = StackFact(tid=LOOP, frames=tuple(loop if f.function == START_LOOP else f for f in frames))
    fact = state(tmp_path, made, placed)
    assert fact is not None
    assert fact.phase == "waking"


@pytest.mark.parametrize(
    "instructions",
    [
        (STORE_TRUE, b"\xe8\0\0\0\0"),  # a direct call, as of pthread_mutex_lock
        (STORE_TRUE, b"\xff\x95\xd8\x01\0\0"),  # through a member: the update callback
        (STORE_TRUE, STORE_FALSE, INVOKE),  # two constants
        (INVOKE,),
        (bytes.fromhex("c6450501"), INVOKE),  # sleeping = true, not an argument
        (STORE_TRUE, b"\x90" * 60, INVOKE),  # too far away
    ],
)
def test_code_that_does_not_tell_is_no_witness(tmp_path: Path, instructions: tuple[bytes, ...]) -> None:
    made = hosted(tmp_path, b"".join(instructions)[-64:].rjust(64, b"\x90") + b"\xcc" * 64)
    fact = state(tmp_path, made, stack("malloc", CACHED))
    assert fact is not None
    assert fact.phase == "unknown"
    assert not any(entry.startswith("call-site") for entry in fact.how)


@pytest.mark.parametrize("call", ["ff5018", "ff5718", "41ff5718", "41ff542418"])
def test_every_register_may_hold_the_callback(tmp_path: Path, call: str) -> None:
    made = hosted(tmp_path, code(STORE_TRUE, bytes.fromhex(call)))
    fact = state(tmp_path, made, stack("malloc", CACHED))
    assert fact is not None
    assert fact.phase == "unloading"


def test_code_of_another_build_is_not_believed(tmp_path: Path) -> None:
    # GIVEN that the file on disk was replaced since
    text = code(STORE_TRUE, INVOKE)
    made = hosted(tmp_path, text, False, shared_object(b"\x01" * 20, code=text))
    fact = state(tmp_path, made, stack("malloc", CACHED))
    assert fact is not None
    assert fact.phase == "unknown"


def test_a_call_site_against_the_frames_is_unknown(tmp_path: Path) -> None:
    # the call site is only asked where the frames leave it open, so that a stray byte overrules nothing
    made = hosted(tmp_path, code(STORE_FALSE, INVOKE))
    fact = state(tmp_path, made, stack(*FREEING))
    assert fact is not None
    assert (fact.phase, fact.how) == ("unloading", ("flags", "frames"))


# never wrong


TRUTH = {"timed": "awake", "wait": "asleep", "free": "unloading", "load": "waking"}
PLACES = {
    "timed": TIMED_WAIT,
    "wait": (*COND_WAIT, STD_WAIT),
    "free": FREEING,
    "load": ("read", "server_context_impl::load_model(common_params&)", LAMBDA),
}


@pytest.mark.parametrize(
    ("place", "memory", "symbols"), list(itertools.product(PLACES, [True, False], [True, False]))
)
def test_whatever_is_missing_the_phase_is_right_or_unknown(
    tmp_path: Path, place: str, memory: bool, symbols: bool
) -> None:
    # GIVEN a loop at a known place, with or without its memory and its symbols
    in_callback = place in ("free", "load")
    queue = queue_memory(
        QUEUE, sleeping=int(place != "timed"), lock=2 * in_callback, owner=LOOP * in_callback
    )
    made = builder(queue if memory else None).waiting(9, QUEUE + 352 + 40)
    if in_callback:
        made.thread(LOOP, rbp=QUEUE)
    else:
        made.waiting(LOOP, CONDITION + 40, place == "timed")
    # WHEN judged
    fact = state(tmp_path, made, *([stack(*PLACES[place])] if symbols else []))
    # THEN symbols always tell the truth here, and without them it is the truth or not known
    if symbols:
        assert fact is not None
        assert fact.phase == TRUTH[place]
    else:
        assert fact is None or fact.phase in (TRUTH[place], "unknown")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    edits=st.lists(st.tuples(st.integers(0, 1500), st.binary(min_size=1, max_size=8)), max_size=5),
    word=st.sampled_from([CONDITION + 40, CONDITION, QUEUE, 0, (1 << 64) - 1]),
    sp=st.sampled_from([0, STACK, QUEUE, (1 << 64) - 8]),
)
def test_a_damaged_queue_never_crashes_and_never_invents_a_phase(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes]], word: int, sp: int
) -> None:
    # GIVEN a sleeping queue with arbitrary bytes changed and a loop seen in its untimed wait
    queue = bytearray(queue_memory(QUEUE, sleeping=1))
    for at, new in edits:
        queue[at : at + len(new)] = new
    made = builder(bytes(queue)).waiting(LOOP, word, rsp=sp, rbp=QUEUE)
    path = made.write(tmp_path_factory.getbasetemp() / "core")
    # WHEN judged THEN it is asleep, unknown, or a stop that the flag byte itself says
    fact = loop_state(read_core(path), [stack(*COND_WAIT)])
    assert fact is not None
    assert fact.phase in ("asleep", "unknown", "stopping")
