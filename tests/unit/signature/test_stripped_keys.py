"""Stripped builds: keys of modules and build-relative offsets, equal on every host, different per place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.contracts.facts import Frame, StackFact
from analyzers.core.model import Core, MappedFile
from analyzers.signature.keys import sign
from analyzers.stacks.scan import located

SERVER, LIBRARY = "/usr/bin/llama-server", "/opt/b/libllama.so"
OFFSETS = ((SERVER, 0x1234), (LIBRARY, 0x99), (SERVER, 0x777))


def crash(
    bases: dict[str, int], *, rung: str = "eu-stack", build_id: str | None = None, moved: int = 0
) -> StackFact:
    """The same crash in a process that the kernel put elsewhere; no frame has a name."""
    mapped = tuple(MappedFile(base, base + 0x10000, 0, path) for path, base in bases.items())
    core = Core(path=__file__, mapped=mapped, build_ids=dict.fromkeys(bases, build_id) if build_id else {})  # type: ignore[arg-type]
    frames = tuple(located(core, bases[path] + offset + moved) for path, offset in OFFSETS)
    return StackFact(tid=1, crashed=True, rung=rung, frames=frames)


def keys(stack: StackFact) -> tuple[str | None, str | None]:
    signed = sign(stack, class_="SEGV", defect=None)
    return signed.bug_key, signed.site_key


HERE = {SERVER: 0x5555_0000_0000, LIBRARY: 0x7F00_0000_0000}
THERE = {SERVER: 0x5610_AAAA_0000, LIBRARY: 0x7FDE_0000_0000}
FIXED = {SERVER: 0x40_0000, LIBRARY: 0x7FDE_0000_0000}


@pytest.mark.parametrize("build_id", [None, "ab" * 20])
def test_the_same_crash_has_the_same_keys_at_every_base(build_id: str | None) -> None:
    here, there = crash(HERE, build_id=build_id), crash(THERE, build_id=build_id)
    assert keys(here) == keys(there) == keys(crash(FIXED, build_id=build_id))
    assert keys(here) == (
        "SEGV|-|-|llama-server+0x1234<libllama.so+0x99<llama-server+0x777",
        f"{build_id[:16]}+0x1234" if build_id else "llama-server+0x1234",
    )


def test_another_place_of_the_same_build_has_another_key() -> None:
    assert keys(crash(HERE)) != keys(crash(HERE, moved=16))


def test_plumbing_with_a_name_does_not_hide_that_the_build_is_stripped() -> None:
    stack = crash(HERE)
    raised = Frame(function="__pthread_kill_implementation", module="libc.so.6", offset=1)
    end = Frame(function="start_thread", module="libc.so.6", offset=2)
    assert keys(replace(stack, frames=(raised, *stack.frames, end)))[0] == keys(stack)[0]


def test_a_build_with_names_is_keyed_by_names_as_ever() -> None:
    frames = tuple(replace(frame, function=f"f{at}") for at, frame in enumerate(crash(HERE).frames))
    assert keys(replace(crash(HERE), frames=frames))[0] == "SEGV|-|-|f0<f1<f2"


def test_words_found_on_a_stack_are_in_no_key() -> None:
    first, *others = crash(HERE, rung="scan").frames
    frames = (replace(first, trust="register"), *(replace(frame, trust="scanned") for frame in others))
    stack = replace(crash(HERE, rung="scan"), frames=frames)
    assert keys(stack) == ("SEGV|-|-|llama-server+0x1234", "llama-server+0x1234")


def test_offsets_of_a_printed_trace_are_not_believed() -> None:
    # GIVEN the look-alike: text that a client could have printed
    assert keys(crash(HERE, rung="pasted")) == ("SEGV|-|-", None)
