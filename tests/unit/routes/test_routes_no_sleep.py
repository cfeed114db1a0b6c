"""A build without the sleep mode is told from a server that does not start and merely names the option."""

import random
from types import SimpleNamespace

import pytest

from analyzers.contracts.trials import Subject
from analyzers.errors import UserError
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.routes.survey import Survey
from collector.lab.verify.session import Bench
from collector.lab.verify.subject import Chosen


def bench(tmp_path, words):
    """A lab whose servers end with ``words``."""

    def start(_):
        raise UserError(f"the server ended with status 1; it said: {words}", where="llama-server", remedy="x")

    spec = ServerSpec(model=tmp_path / "m.gguf", binary=tmp_path / "llama-server")
    chosen = Chosen(Subject(kind="native", name="b1", build=1), spec)
    lab = SimpleNamespace(start=start, folder=tmp_path)
    return Bench(lab, chosen, lambda _: None, random.Random(0))


@pytest.mark.parametrize(
    "words",
    [
        "error: invalid argument: --sleep-idle-seconds",
        "HOSTED this wheel does not know the parameter 'CommonParams' object has no sleep_idle_seconds",
    ],
)
def test_a_build_that_refuses_the_option_has_no_sleep_mode(tmp_path, words):
    survey = Survey((), ())

    assert list(survey(bench(tmp_path, words))) == []
    assert not survey.sleeps


def test_a_server_that_only_names_the_option_as_it_dies_is_not_called_sound(tmp_path):
    words = "exec llama-server --sleep-idle-seconds 1: error while loading shared libraries: libx.so"
    survey = Survey((), ())

    with pytest.raises(UserError, match="shared libraries"):
        list(survey(bench(tmp_path, words)))
    assert survey.sleeps
