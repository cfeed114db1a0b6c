"""The table of points: which symbol stands for it in a build, and whose thread may be held."""

import random

import pytest
from directed_stub import HANDLER_STACK, LOOP_STACK

from analyzers.errors import UserError
from collector.lab.reference.vocabulary import WORDS
from collector.lab.verify.answers import REPEATABLE
from collector.lab.verify.directed.places import Places
from collector.lab.verify.directed.points import (
    BY_NAME,
    DEFECTS,
    POINTS,
    listing,
    under_handler,
    unknown_defects,
    usable,
    wanted_points,
)
from collector.lab.verify.directed.requests import request_for, two_words
from collector.lab.verify.directed.symbols import Binary, Function

# Mangled names by nm, as the builds have them.
HOSTED_11549 = (
    "_Z14tokenize_mixedPK11llama_vocabRK11common_jsonbb",
    "_ZN12server_queue19wait_until_no_sleepEv",
    "_ZNK11llama_vocab4impl8tokenizeERKSsbb",
    "_Z22json_schema_to_grammarRK11common_jsonb",
    "_Z22json_schema_to_grammarRK27common_chat_schema_document",
    "_ZN12server_queue4postEOSt6vectorI11server_taskSaIS1_EEb",
)
NATIVE_11368 = (
    "_Z14tokenize_mixedPK11llama_vocabRK11common_jsonbb",
    "_ZN12server_queue19wait_until_no_sleepEv",
    "_ZNK11llama_vocab4impl8tokenizeERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEbb",
    "_Z22json_schema_to_grammarB5cxx11RK11common_jsonb",
    "_ZN12server_queue4postEOSt6vectorI11server_taskSaIS1_EEb",
)


def places(names, tmp_path):
    found = {}
    for point in POINTS:
        for symbol in point.symbols:
            hits = tuple(Function(name, 1) for name in names if name.startswith(symbol))
            found |= {symbol: hits} if hits else {}
    return Places(((Binary(tmp_path / "x", 0, found), tmp_path / "0.elf"),))


@pytest.mark.parametrize("names", [HOSTED_11549, NATIVE_11368], ids=["hosted", "native"])
def test_every_point_is_found_by_its_first_symbol(names, tmp_path):
    known = places(names, tmp_path)
    there, missing = usable(POINTS, known.found, "build", explicit=True)
    assert (there, missing) == (list(POINTS), [])
    assert [known.symbol(point) for point in POINTS] == [point.symbols[0] for point in POINTS]


def test_an_alternative_stands_in_for_a_name_that_is_not_there(tmp_path):
    known = places(["_Z15common_tokenizePK11llama_vocabRKSsbb"], tmp_path)
    assert known.symbol(BY_NAME["tokeniser"]) == "_Z15common_tokenizePK11llama_vocab"


def test_a_point_without_symbol_is_an_error_when_asked_for_and_left_out_otherwise(tmp_path):
    # GIVEN a build without the schema conversion
    found = places([name for name in HOSTED_11549 if "json_schema" not in name], tmp_path).found
    # WHEN it was asked for by name THEN point and build are named
    with pytest.raises(UserError, match=r"b1 .*schema-conversion") as caught:
        usable([BY_NAME["schema-conversion"]], found, "b1 (wheel)", explicit=True)
    assert "\n" not in str(caught.value)
    # WHEN it is one of all THEN the others are used
    there, missing = usable(POINTS, found, "b1", explicit=False)
    assert [point.name for point in missing] == ["schema-conversion"]
    assert len(there) == len(POINTS) - 1


def test_a_default_whose_points_are_all_missing_is_an_error(tmp_path):
    found = places(["_ZN12server_queue19wait_until_no_sleepEv"], tmp_path).found
    with pytest.raises(UserError, match="before-post"):
        usable([BY_NAME["before-post"]], found, "b1", explicit=False)


def test_a_stripped_build_is_named_as_such():
    with pytest.raises(UserError, match="no symbols"):
        usable(POINTS, {}, "b1", explicit=False)


def test_a_thread_under_a_route_handler_is_held():
    assert under_handler(HANDLER_STACK)
    assert under_handler(
        ["?", "_ZN13server_routes23handle_completions_implERK15server_http_req16server_task_type"]
    )
    lambdas = (
        "server_routes::init_routes()::{lambda(server_http_req const&)#9}::operator()(server_http_req const&)"
    )
    assert under_handler(["tokenize_mixed(llama_vocab const*)", lambdas])


def test_the_loop_and_everybody_else_are_not():
    assert not under_handler(LOOP_STACK)
    assert not under_handler(["llama_vocab::impl::tokenize", "load_model", "main"])
    assert not under_handler([])
    # a task that runs a handler's closure in the loop's own thread
    assert not under_handler([*HANDLER_STACK[:3], "server_queue::start_loop(long)"])
    assert not under_handler([*HANDLER_STACK[:3], "_ZN12server_queue10start_loopEl"])


def test_only_the_last_barrier_counts():
    route = ["server_queue::wait_until_no_sleep()", "server_routes::create_response(bool)"]
    first = [*route, "server_routes::init_routes()::{lambda(server_http_req const&)#12}"]
    last = [*route, "server_routes::handle_completions_impl(server_http_req const&)", *first[2:]]
    assert not under_handler(first, BY_NAME["after-barrier"].handler)
    assert under_handler(last, BY_NAME["after-barrier"].handler)
    mangled = ["_ZN13server_routes19handle_count_tokensEPK11llama_vocab"]
    assert under_handler(mangled, BY_NAME["token-count"].handler)
    assert not under_handler(last, BY_NAME["token-count"].handler)


def test_each_defect_has_a_point_and_the_help_names_all():
    assert {point.defect for point in POINTS} == set(DEFECTS)
    assert all(point.name in listing() for point in POINTS)


def test_points_are_chosen_by_name_or_defect():
    assert [point.name for point in wanted_points(["D3"], [])] == ["before-post"]
    assert [point.name for point in wanted_points([], ["tokeniser", "tokeniser"])] == ["tokeniser"]
    assert len(wanted_points([], [])) == len(POINTS)


@pytest.mark.parametrize(
    ("defects", "names", "words"),
    [([], ["kitchen"], "after-barrier"), (["D1"], ["tokeniser"], "none of the points")],
)
def test_a_choice_that_cannot_be_is_refused(defects, names, words):
    with pytest.raises(UserError, match=words):
        wanted_points(defects, names)


def test_a_defect_no_point_aims_at_is_refused():
    with pytest.raises(UserError, match="D1, D2, D3"):
        unknown_defects(["D1", "D7\x1b[31m"])
    unknown_defects(["D1", "D3"])


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_every_request_is_short_and_repeatable(point):
    words = two_words(random.Random(3))
    assert len(words.split()) == 2
    assert set(words.split()) <= set(WORDS)
    request = request_for(point, words)
    assert request.method == "POST"
    assert words in request.payload().decode()
    assert len(request.payload()) < 500
    assert request.body | REPEATABLE == request.body


def test_the_request_of_a_point_passes_it():
    routes = {point.name: request_for(point, "a b").route for point in POINTS}
    assert routes["token-count"] == "/v1/chat/completions/input_tokens"
    assert routes["tokeniser"] == "/tokenize"
    assert routes["after-barrier"] == routes["before-post"] == routes["schema-conversion"] == "/completion"
    body = request_for(BY_NAME["schema-conversion"], "a b").body
    assert body["json_schema"]
    assert isinstance(body["logit_bias"][0][0], str)
    assert body["n_predict"] == 1
