from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.facts import Frame, StackFact
from analyzers.signature import keys, rules
from analyzers.signature.keys import sign
from analyzers.signature.rules import Rule

OLD, NEW = "093f29465c094a0b3e60216f55169f0dde60f676", "8aedfa31af1c52fe94168556eb93295be603e89e"
TOKENIZER = (
    "llama_vocab::impl::tokenize(std::string const&, bool, bool) const",
    "llama_vocab::tokenize(std::string const&, bool, bool) const",
    "common_tokenize(llama_vocab const*, std::string const&, bool, bool)",
    "tokenize_mixed(llama_vocab const*, common_json const&, bool, bool)",
)
COMPLETIONS = "server_routes::handle_completions_impl(server_http_req const&, server_task_type)"
COUNT = "server_routes::handle_count_tokens(llama_vocab const*, mtmd_context*, server_http_req const&)"
HTTP = ("httplib::Server::process_request(httplib::Stream&)", "start_thread", "__clone3")


def stack(*functions: str, build: str = NEW, base: int = 0x1000) -> StackFact:
    frames = tuple(
        Frame(function=name, module="libllama.so", offset=base + 16 * i, ip=0x7F00 + 16 * i, build_id=build)
        for i, name in enumerate(functions)
    )
    return StackFact(tid=1, crashed=True, rung="eu-stack", frames=frames)


def uaf(of: StackFact | None, defect: str | None = "D2", **more: str) -> str | None:
    return sign(of, class_="SEGV-UAF-SLEEP", defect=defect, **more).bug_key


def test_equal_top_frames_of_two_defects_differ() -> None:
    d1, d2 = stack(*TOKENIZER, COUNT, *HTTP), stack(*TOKENIZER, COMPLETIONS, *HTTP)
    assert uaf(d1, "D1") == "SEGV-UAF-SLEEP|D1|handle_count_tokens"
    assert uaf(d2, "D2") == "SEGV-UAF-SLEEP|D2|handle_completions_impl"
    # even with the same handler
    assert uaf(d2, "D1") != uaf(d2, "D2")


def test_one_defect_crashed_at_different_depths_is_one_bug_at_two_sites() -> None:
    shallow = stack(*TOKENIZER, COMPLETIONS, *HTTP)
    deep = stack("_int_malloc", "llm_tokenizer_spm_session::resegment(x)", *TOKENIZER, COMPLETIONS, *HTTP)
    assert uaf(shallow) == uaf(deep)
    signatures = [sign(s, class_="SEGV-UAF-SLEEP", defect="D2") for s in (shallow, deep)]
    assert [s.site_key for s in signatures] == [f"{NEW[:16]}+0x1000", f"{NEW[:16]}+0x1010"]


def test_a_rebuild_keeps_the_bug_and_changes_the_site() -> None:
    # GIVEN the same crash of another build: other offsets, build-id, parameters and clones
    old = stack("llama_decode(llama_context*)", *HTTP, build=OLD)
    new = stack("llama_decode(llama_context*, llama_batch) [clone .cold]", *HTTP, build=NEW, base=0x9999)
    first, second = (sign(s, class_="SEGV", defect=None) for s in (old, new))
    assert first.bug_key == second.bug_key == "SEGV|-|-|llama_decode"
    assert first.site_key != second.site_key


def test_without_a_defect_the_site_tells_bugs_apart_and_the_handler_is_named() -> None:
    one = sign(stack("llama_decode(x)", COMPLETIONS, *HTTP), class_="SEGV", defect=None)
    two = sign(stack("llama_encode(x)", COMPLETIONS, *HTTP), class_="SEGV", defect=None)
    assert one.bug_key == "SEGV|-|handle_completions_impl|llama_decode"
    assert one.bug_key != two.bug_key


def test_an_abort_is_named_by_what_called_it() -> None:
    reporting = (
        "__pthread_kill_implementation",
        "raise",
        "abort",
        "ggml_abort",
        "std::vector<int>::at(long)",
    )
    signature = sign(stack(*reporting, "llama_context::decode(x)", *HTTP), class_="ABRT-ASSERT", defect=None)
    assert signature.bug_key == "ABRT-ASSERT|-|-|llama_context::decode"
    assert signature.site_key == f"{NEW[:16]}+0x1050"


def test_a_recursion_of_any_depth_is_one_bug() -> None:
    def overflow(depth: int) -> StackFact:
        grown = stack(
            "malloc", *["std::__detail::_Executor<x>::_M_dfs(long)"] * 40, "unicode_regex_split(x)", *HTTP
        )
        frames = [replace(f, repeat=depth) if i == 20 else f for i, f in enumerate(grown.frames)]
        return replace(grown, frames=tuple(frames))

    first, second = (sign(overflow(n), class_="SEGV-STACK", defect=None) for n in (9, 52_000))
    assert first.bug_key == second.bug_key
    assert any("stands for 52039" in line for line in second.explain)


def test_inlined_frames_of_a_debugger_do_not_change_the_keys() -> None:
    plain = stack(*TOKENIZER, COMPLETIONS, *HTTP)
    extra = replace(plain.frames[0], function="inlined_helper()", inlined=True)
    seen = replace(plain, rung="gdb", frames=(extra, *plain.frames))
    for defect in ("D2", None):
        one, two = (sign(s, class_="SEGV", defect=defect) for s in (plain, seen))
        assert (one.bug_key, one.site_key) == (two.bug_key, two.site_key)


@pytest.mark.parametrize("empty", [None, StackFact()])
def test_without_a_stack_class_defect_and_route_make_the_key(empty: StackFact | None) -> None:
    signature = sign(empty, class_="HANG-STRANDED", defect="D3", route="/v1/completions")
    assert (signature.bug_key, signature.site_key) == ("HANG-STRANDED|D3|/v1/completions", None)
    assert sign(empty, class_="HOST-OOM", defect=None).bug_key == "HOST-OOM|-|-"


def test_a_stack_without_names_still_has_a_site() -> None:
    nameless = StackFact(frames=(Frame(offset=0x40, build_id=NEW, module="x"),))
    signature = sign(nameless, class_="SEGV", defect=None, route="/completion")
    assert (signature.bug_key, signature.site_key) == ("SEGV|-|/completion", f"{NEW[:16]}+0x40")


def test_a_handler_that_is_given_outranks_the_frames() -> None:
    assert uaf(stack(*TOKENIZER, *HTTP), handler="tokenize") == "SEGV-UAF-SLEEP|D2|tokenize"
    given_one = uaf(stack(*TOKENIZER, COMPLETIONS, *HTTP), handler="handle_count_tokens")
    assert given_one == "SEGV-UAF-SLEEP|D2|handle_count_tokens"


def test_a_defect_outside_a_request_is_told_by_its_site() -> None:
    loop = stack("llama_model::load(x)", "server_queue::start_loop(long)", "__clone3")
    assert uaf(loop, "D8") == "SEGV-UAF-SLEEP|D8|-|llama_model::load<server_queue::start_loop"


@pytest.mark.parametrize("broken", range(len(rules.PIPELINE)))
def test_a_rule_that_fails_becomes_a_line_and_nothing_else(broken: int) -> None:
    def fail(draft: rules.Draft) -> str:
        raise ValueError("broken")

    pipeline = list(rules.PIPELINE)
    pipeline[broken] = Rule("broken rule", lambda draft: True, fail)
    signature = sign(stack(*TOKENIZER, COMPLETIONS, *HTTP), class_="SEGV", defect="D2", pipeline=pipeline)
    assert "broken rule: failed (ValueError); left out" in signature.explain
    assert len(signature.explain) > 1


def test_every_key_explains_itself() -> None:
    signature = sign(stack(*TOKENIZER, COMPLETIONS, *HTTP), class_="SEGV-UAF-SLEEP", defect="D2")
    assert signature.version == keys.VERSION
    assert signature.bug_key is not None
    assert signature.bug_key in signature.explain[-1]
    assert any(signature.site_key in line for line in signature.explain if signature.site_key)


@given(st.lists(st.text(min_size=1, max_size=300), max_size=6), st.text(max_size=200), st.booleans())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_names_give_a_bounded_printable_key_of_a_fixed_shape(
    names: list[str], route: str, defect: bool
) -> None:
    made = sign(stack(*names), class_="SEGV", defect="D2" if defect else None, route=route)
    key = made.bug_key
    assert key is not None
    assert key.isprintable()
    assert len(key) <= 8 * (rules.PART_CHARS + rules.DIGEST_CHARS + 2)
    assert key.split(rules.SEPARATOR)[:2] == ["SEGV", "D2" if defect else rules.ABSENT]
    assert len(key.split(rules.SEPARATOR)) in (3, 4)
    assert all(line.isprintable() for line in made.explain)


def test_long_names_that_differ_at_their_end_stay_different() -> None:
    one, two = (sign(stack("f" * 500 + end), class_="SEGV", defect=None).bug_key for end in "ab")
    assert one != two
