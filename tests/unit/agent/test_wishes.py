"""Which server a table of the settings file names, and what it wants of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyzers.contracts.evidence import Incarnation
from analyzers.errors import UserError
from collector.agent.config.load import parse_config
from collector.agent.wishes import Wishes, Wishlist, target_of
from collector.discovery.model import Found, Listening, Place

CONTAINER = "0123456789abcdef" * 4


def server(**more: Any) -> Found:
    values: dict[str, Any] = {
        "role": "standalone",
        "model": "m",
        "listening": (Listening("127.0.0.1", 8080),),
        "place": Place(unit="llama.service", container=CONTAINER),
        **more,
    }
    return Found(Incarnation(pid=7, start_time=1.0), "/usr/bin/llama-server", **values)


def wishes(text: str, found: Found | None = None, keys: dict[str, str] | None = None) -> Wishes:
    def read(path: Path) -> str:
        return (keys or {})[str(path)]

    return Wishlist(parse_config(text.encode(), "t"), read=read).of(found or server())


NAMED = ["port = 8080", "unit = 'llama.service'", "model = 'm'", f"container = '{CONTAINER[:12]}'"]


@pytest.mark.parametrize("name", NAMED)
def test_a_table_speaks_of_the_server_it_names(name):
    assert not wishes(f"[[target]]\n{name}\nwatch = false").watch


@pytest.mark.parametrize(
    "name", ["port = 8081", "unit = 'x'", "model = 'n'", "container = '0123'", "socket = '/run/x'"]
)
def test_and_of_no_other(name):
    assert wishes(f"[[target]]\n{name}\nwatch = false").watch


def test_everything_that_is_given_must_fit():
    assert wishes("[[target]]\nport = 8080\nunit = 'x'\nwatch = false").watch


def test_nothing_with_side_effects_is_done_unasked():
    plain = wishes("")
    assert (plain.probe, plain.metrics, plain.release, plain.key) == (True, False, False, None)


def test_a_table_outranks_the_defaults_in_both_directions():
    text = "[probes]\nmetrics = true\n[stranded]\nrelease = true\n[[target]]\nport = 8080\nmetrics = false"
    told = wishes(text)
    assert (told.metrics, told.release) == (False, True)


def test_a_key_comes_from_its_file_and_is_not_shown():
    told = wishes("[[target]]\nport = 8080\napi_key_file = '/k'", keys={"/k": "s3cret"})
    assert told.key == "s3cret"
    assert "s3cret" not in repr(told)
    assert "s3cret" not in repr(target_of(server(), told))


def test_a_key_that_cannot_be_read_is_a_problem_and_no_end():
    def read(path: Path) -> str:
        raise UserError("cannot be read", where=str(path), remedy="look")

    listed = Wishlist(parse_config(b"[[target]]\nport = 8080\napi_key_file = '/k'", "t"), read=read)
    assert listed.problems == ["/k: cannot be read; look"]
    assert listed.of(server()).key is None


def test_how_a_server_is_reached():
    found = server(listening=(Listening("0.0.0.0", 8080),), tls=True, prefix="/a")  # noqa: S104
    target = target_of(found, Wishes())
    assert target is not None
    assert target.base_url == "https://127.0.0.1:8080/a"
    assert target.pid == 7
    unix = target_of(server(listening=(Listening(socket="/run/l.sock"),)), Wishes())
    assert unix is not None
    assert unix.socket == "/run/l.sock"


@pytest.mark.parametrize(
    "found",
    [server(listening=()), server(prefix="no-slash"), server(listening=(Listening("name", 80),))],
)
def test_a_server_that_cannot_be_reached_has_no_target(found):
    assert target_of(found, Wishes()) is None
