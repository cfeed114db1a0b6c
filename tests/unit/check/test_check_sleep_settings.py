"""The sleep limit that holds, with its origin; what a router's models would do; what hides it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from check_scenes import subject

from analyzers.contracts.evidence import Incarnation
from collector.check.exposure import POSSIBLE, Exposure, expose, sleep_off
from collector.check.told import Told, sleep_in, sleep_of_models, told
from collector.discovery.look import HIDDEN_ARGUMENTS, HIDDEN_ENVIRONMENT, REPLACED
from collector.discovery.model import Found, Setting
from collector.gather.servers import Server

LINE, FILE = "command-line", "preset:tiny"


def found(*settings: tuple[str, str, str], role: str = "standalone", problems: tuple[str, ...] = ()) -> Found:
    rows = tuple(Setting(*one) for one in settings)
    return Found(Incarnation(pid=1), "/x/llama-server", role, settings=rows, problems=problems)


def limit(made: Found, router: bool = False) -> tuple[int | None, str]:
    said = told(subject(), made)
    return sleep_of_models(said) if router else sleep_in(said)


@pytest.mark.parametrize(
    ("rows", "seconds", "says"),
    [
        ((("sleep-idle-seconds", "60", LINE),), 60, "command-line"),
        ((("sleep-idle-seconds", "9", FILE),), 9, "preset:tiny"),
        ((("sleep-idle-seconds", "-1", "default"),), -1, "not given"),
        ((("sleep-idle-seconds", "60", "environment"),), None, "no build"),
        ((("sleep-idle-seconds", "1e3", LINE),), None, "could not be read"),
        ((("sleep-idle-seconds", "\u0663\u0660", LINE),), None, "could not be read"),
    ],
)
def test_the_limit_and_where_it_was_set(
    rows: tuple[tuple[str, str, str], ...], seconds: int | None, says: str
) -> None:
    assert (limit(found(*rows))[0], says in limit(found(*rows))[1]) == (seconds, True)


def test_no_limit_is_not_off_where_a_source_of_settings_is_hidden() -> None:
    off = ("sleep-idle-seconds", "-1", "default")
    for problem in (HIDDEN_ENVIRONMENT, HIDDEN_ARGUMENTS, "line 3 of its configuration file is no setting"):
        assert limit(found(off, problems=(problem,)))[0] is None
    assert limit(found(off, problems=(REPLACED,)))[0] == -1


def test_a_router_is_judged_by_what_its_models_would_do() -> None:
    # GIVEN two models, one of which sleeps
    rows = (("model", "a", "preset:a"), ("sleep-idle-seconds", "30", "preset:a"), ("model", "b", "preset:b"))
    # THEN
    seconds, words = limit(found(*rows, role="router"), router=True)
    assert seconds == 30
    assert "models a sleep" in words
    # AND the global section reaches every model, the router's own command line outranks all
    shared = (*rows, ("sleep-idle-seconds", "5", "preset:*"))
    assert limit(found(*shared, role="router"), router=True)[0] == 5
    own = (*shared, ("sleep-idle-seconds", "-1", LINE))
    assert limit(found(*own, role="router"), router=True)[0] == -1


def test_a_key_is_never_among_what_is_shown() -> None:
    made = subject(args=("llama-server", "--api-key", "s3cret", "--port", "1"))
    assert "s3cret" not in repr(told(made).shown())
    assert told(made).shown()["port"] == {"value": "1", "origin": LINE}


def test_the_remedy_names_the_place_where_sleep_was_switched_on() -> None:
    made = subject()
    assert sleep_off(made, Told({"sleep-idle-seconds": ("9", LINE)})) == "--sleep-idle-seconds -1"
    assert "[tiny]" in sleep_off(made, Told({"sleep-idle-seconds": ("9", FILE)}))
    made.server = Server(1, "/usr/bin/python3", "/x/xllamacpp.abi3.so", True, Incarnation())
    assert "program that hosts it" in sleep_off(made, Told())


def test_a_hosted_server_is_never_clear_nor_off() -> None:
    made = subject()
    made.server = Server(1, "/usr/bin/python3", "/nothing", True, Incarnation())
    seen = expose(made)
    clean = replace(seen, defects=tuple(replace(one, standing="clear") for one in seen.defects))
    for one in (seen, clean, Exposure(1, "x", "b1", "", None, ())):
        assert one.verdict == POSSIBLE
        assert one.headline
