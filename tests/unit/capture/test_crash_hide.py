"""Nothing secret of a command line or an environment reaches the disk."""

from __future__ import annotations

import pytest

from collector.capture.crash import notes
from collector.capture.crash.hide import clean_environment, clean_words

SECRET = "hunter2-and-more"  # noqa: S105 - no password


@pytest.mark.parametrize(
    "words",
    [
        ["llama-server", "--api-key", SECRET],
        ["llama-server", f"--api-key={SECRET}"],
        ["llama-server", "--api-key", "-" + SECRET],
        ["llama-server", "-hft", SECRET, "-m", "x"],
        ["llama-server", "-p", SECRET],
        ["llama-server", "--system-prompt", SECRET],
        ["python", "-c", f"run(key='{SECRET}')"],
        ["python", "host.py", f'{{"api_key": "{SECRET}"}}'],
        ["python", "host.py", f"token={SECRET}"],
        ["llama-server", "--model-url", f"https://user:{SECRET}@host/x.gguf"],
        ["x", f"sk-{SECRET}"],
    ],
)
def test_secret_values_are_hidden(words: list[str]) -> None:
    assert SECRET not in " ".join(clean_words(words))
    assert len(clean_words(words)) == len(words)


def test_plain_settings_stay() -> None:
    words = ["llama-server", "-m", "/m/x.gguf", "-c", "4096", "--sleep-idle-seconds", "60", "--metrics"]
    assert clean_words(words) == words


def test_of_the_environment_names_stay_and_plain_values() -> None:
    words = [
        "LLAMA_ARG_MODEL=/m",
        "LLAMA_ARG_API_KEY=k",
        "HOME=/home/me",
        "GGML_X=1",
        "bad name=1",
        "noequals",
    ]
    found = clean_environment(words)
    assert found == {"LLAMA_ARG_MODEL": "/m", "LLAMA_ARG_API_KEY": None, "HOME": None, "GGML_X": "1"}


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (b"llama-server --port 80 --api-key " + SECRET.encode(), b"llama-server --port 80 --api-key"),
        (b"llama-server -p a b c", b"llama-server -p"),  # blanks of a value look like blanks between words
        (b"llama-server -m /m/x.gguf -c 4096", b"llama-server -m /m/x.gguf -c 4096"),
        (b"\xff" * 79, b"\xff" * 79),
    ],
)
def test_the_kernels_copy_of_the_arguments_ends_before_a_secret(words: bytes, kept: bytes) -> None:
    block = notes.prpsinfo(5, b"llama-server", words) + notes.build(notes.XSTATE, b"v" * 64, notes.LINUX)
    (note,) = notes.to_keep(notes.parse(block))
    assert note.packed() == notes.prpsinfo(5, b"llama-server", kept)
