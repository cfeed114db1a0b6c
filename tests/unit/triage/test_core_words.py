"""The command line in a core's notes: blanks are all that is left between and inside the arguments."""

import pytest

from analyzers.contracts.report import Process, Report, Tool, Verdict
from analyzers.triage.from_core import command_words
from analyzers.triage.sound import sound


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (None, []),
        ("", []),
        ("llama-server -m a.gguf -c 512", ["llama-server", "-m", "a.gguf", "-c", "512"]),
        ("llama-server -p tell me a tale -c 9", ["llama-server", "-p", "tell me a tale", "-c", "9"]),
        ("llama-server --api-key two words", ["llama-server", "--api-key", "two words"]),
        ("llama-server --prompt -5 degrees", ["llama-server", "--prompt", "-5 degrees"]),
    ],
)
def test_a_private_value_keeps_its_blanks(line, words):
    assert command_words(line) == words


def report(**process: object) -> Report:
    verdict = Verdict(class_="SEGV", cause="unknown", phase="unknown", confidence="weak", summary="a fault")
    return Report(tool=Tool(version="1", catalogue="1"), verdict=verdict, process=Process(**process))


def test_a_report_of_plain_text_is_the_same_object():
    plain = report(exe="/srv/llama-server")
    assert sound(plain) is plain


def test_a_report_of_undecodable_names_can_be_written():
    written = sound(report(exe="/srv/\udcff/llama", args=["a", "\ud800"]))
    assert Report.from_json(written.to_json()).process.exe == "/srv/?/llama"
    assert written.process.args == ["a", "?"]
