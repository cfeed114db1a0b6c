from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.facts import Frame, StackFact
from analyzers.stacks import frames
from analyzers.stacks.frames import normalise

REQUEST = "(server_http_req const&)"
COUNT, COMPLETIONS = "handle_count_tokens", "handle_completions_impl"
NAMES = [
    ("llama_vocab::impl::tokenize(std::string const&, bool, bool) const", "llama_vocab::impl::tokenize"),
    ("char* std::string::_S_construct<char const*>(char const*, char const*)", "std::string::_S_construct"),
    ("operator new(unsigned long)", "operator new"),
    ("void operator delete[](void*, std::align_val_t)", "operator delete[]"),
    ("foo::operator()(int) const", "foo::operator()"),
    ("std::ostream& operator<< <char>(std::ostream&, char)", "operator<<"),
    ("ptr<int>::operator->() const", "ptr::operator->"),
    ("bool a::operator<(a const&) const", "a::operator<"),
    ("operators::apply(int)", "operators::apply"),
    ("pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait"),
    ("clock_nanosleep@GLIBC_2.2.5", "clock_nanosleep"),
    ("llama_decode.cold", "llama_decode"),
    ("_int_free.part.0.isra.3 [clone .constprop.1]", "_int_free"),
    ("common_tokenize[abi:cxx11](llama_vocab const*)", "common_tokenize"),
    (f"server_routes::init_routes()::{{lambda{REQUEST}#8}}::operator(){REQUEST} const",
     "server_routes::init_routes::{lambda}::operator()"),
    ("ex_wrapper(handler_t)::<lambda(const server_http_req&)>::operator()(const server_http_req&)",
     "ex_wrapper::{lambda}::operator()"),
    ("(anonymous namespace)::clip_load(char const*)", "{anonymous}::clip_load"),
    ("std::map<std::string, std::function<void (int)> >::at(std::string const&)", "std::map::at"),
    ("llama_vocab::impl::tokenize(std::stri", "llama_vocab::impl::tokenize"),
    ("non-virtual thunk to llama_context::decode()", "llama_context::decode"),
    ("decltype (f(x)) g<int>(int)", "g"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), NAMES)
def test_a_name_loses_what_a_rebuild_changes(raw: str, expected: str) -> None:
    assert normalise(raw).text == expected
    assert normalise(raw).raw == raw


def test_lambda_numbers_are_kept_apart() -> None:
    raw = f"f<g()::{{lambda(h()::{{lambda()#2}})#11}}>({REQUEST})::{{lambda(int)#3}}::operator()()"
    assert normalise(raw).text == "f::{lambda}::operator()"
    assert set(normalise(raw).lambdas) == {2, 11, 3}


IDENTIFIER = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True).filter(
    lambda s: not s.startswith("operator")
)
TYPE = st.recursive(
    IDENTIFIER,
    lambda inner: st.one_of(
        st.builds("{}<{}, {} >".format, IDENTIFIER, inner, inner), st.builds("{} const&".format, inner)
    ),
    max_leaves=6,
)


@given(st.lists(IDENTIFIER, min_size=1, max_size=4), st.lists(TYPE, max_size=3), TYPE, st.integers(0, 99))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_every_dressing_of_a_name_gives_the_same_name(
    path: list[str], parameters: list[str], returned: str, number: int
) -> None:
    plain = "::".join(path)
    dressed = (
        f"{returned} {plain}<{', '.join(parameters)}>({', '.join(parameters)}) const [clone .part.{number}]"
    )
    assert normalise(dressed).text == plain
    assert normalise(plain).text == plain


@given(st.text(max_size=200) | st.text(alphabet="<>(){}[]:*&- operatorlambda#0123456789", max_size=80))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_text_has_a_name(text: str) -> None:
    name = normalise(text)
    assert name.raw == text
    assert len(name.text) <= 16 + 8 * len(text)


def test_a_hostile_name_takes_no_time() -> None:
    for text in ("<" * 20_000, "{lambda(" * 3000, "operator" * 3000, " const" * 4000):
        normalise(text)


def stack(*functions: str) -> StackFact:
    return StackFact(frames=tuple(Frame(function=name) for name in functions))


LAMBDA = f"server_routes::init_routes()::{{lambda{REQUEST}#20}}::operator(){REQUEST} const"
WRAPPER = f"std::_Function_handler<x (server_http_req const&), server_routes::init_routes()::{{lambda{REQUEST}#11}}>::_M_invoke(std::_Any_data const&)"  # noqa: E501
HANDLERS = [
    (("tokenize_mixed(llama_vocab const*)", f"server_routes::{COUNT}(int)", WRAPPER), COUNT),
    (("tokenize_input_prompts(x)", f"server_routes::{COMPLETIONS}(int)", LAMBDA), COMPLETIONS),
    (("llama_vocab::tokenize()", "tokenize_mixed(x)", LAMBDA), "tokenize"),
    (("malloc", "std::string::append()", "tokens_to_str(llama_vocab const*)", LAMBDA), "detokenize"),
    (("common_tokenize(x)", "tokenize_mixed(x)", "format_prompt_rerank(x)", LAMBDA), "rerank"),
    (("jinja::execute()", "oaicompat_chat_params_parse(x)", LAMBDA), "chat-template"),
    (("tokenize_mixed(x)", WRAPPER), "tokenize"),
    (("something_new()", LAMBDA), "unnamed-route"),
    ((LAMBDA,), "unnamed-route"),
]  # fmt: skip


@pytest.mark.parametrize(("functions", "name"), HANDLERS)
def test_the_route_handler_is_the_innermost_and_says_why(functions: tuple[str, ...], name: str) -> None:
    handler = frames.route_handler(stack(*functions, "httplib::Server::process_request(x)"))
    assert handler is not None
    assert handler.name == name
    assert handler.raw == functions[handler.frame_index]
    assert handler.evidence


@pytest.mark.parametrize(
    "functions",
    [(), ("server_queue::start_loop(long)", "main"), ("server_routes::update_cached_responses(bool)",)],
)
def test_other_threads_have_no_handler(functions: tuple[str, ...]) -> None:
    assert frames.route_handler(stack(*functions)) is None


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("llama_vocab::text_to_token(std::string const&) const", "model"),
        ("llm_tokenizer_spm_session::resegment(llm_symbol&)", "model"),
        ("tokenize_input_prompts(llama_vocab const*)", "model"),
        ("mtmd_tokenize(mtmd_context*)", "model"),
        ("common_chat_templates_apply(x)", "templates"),
        ("json_schema_to_grammar(x)", "pure"),
        ("unicode_regex_split(std::string const&)", "pure"),
        ("server_queue::start_loop(long)", None),
        ("httplib::Server::process_request(x)", None),
        ("__libc_malloc", None),
        (None, None),
    ],
)
def test_readers_are_told_apart_by_what_they_read(function: str | None, kind: str | None) -> None:
    assert frames.reader_kind(Frame(function=function)) == kind
    assert frames.is_reader(Frame(function=function)) is (kind is not None)


@pytest.mark.parametrize(
    ("function", "plumbing"),
    [
        ("__GI_abort", True),
        ("ggml_abort", True),
        ("operator new(unsigned long)", True),
        ("std::_Hashtable<a, b>::find(a const&)", True),
        ("std::__detail::_Executor<x>::_M_dfs(long)", False),
        ("llama_decode", False),
        ("server_routes::handle_embeddings_impl(x)", False),
        ("__clone3", True),
        (None, False),
    ],
)
def test_plumbing_is_what_stands_under_every_fault(function: str | None, plumbing: bool) -> None:
    assert frames.is_plumbing(Frame(function=function)) is plumbing


def test_the_regex_splitter_is_known_by_its_executor() -> None:
    assert frames.regex_splitter(
        Frame(function="std::__detail::_Executor<char*, x, true>::_M_dfs(int, long)")
    )
    assert not frames.regex_splitter(Frame(function="llm_tokenizer_spm_session::resegment(x)"))


def test_an_idle_http_thread_serves_no_request() -> None:
    idle = stack("pthread_cond_wait", "httplib::ThreadPool::worker(bool)", "clone3")
    busy = stack("x", "httplib::Server::process_request(x)", "httplib::ThreadPool::worker(bool)")
    assert (frames.is_http_thread(idle), frames.serves_request(idle)) == (True, False)
    assert (frames.is_http_thread(busy), frames.serves_request(busy)) == (True, True)


@given(st.integers(1, 40), st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_recursion_folds_to_one_period_and_loses_no_frame(times: int, cycle: tuple[str, ...]) -> None:
    folded = frames.fold([Frame(function=name) for name in ("head", *cycle * times, "tail")])
    assert [frame.function for frame in folded] == ["head", *cycle, "tail"]
    assert sum(frame.repeat for frame in folded) == 2 + len(cycle) * times


def test_nameless_frames_are_never_folded() -> None:
    assert len(frames.fold([Frame(ip=1), Frame(ip=2), Frame(ip=3)])) == 3


def test_all_but_the_outermost_frame_of_an_address_are_inlined() -> None:
    given_frames = [Frame(function="a", ip=1), Frame(function="b", ip=1), Frame(function="b", ip=2)]
    assert [frame.inlined for frame in frames.mark_inlined(given_frames)] == [True, False, False]
