"""Nothing secret of a command line or an environment reaches the disk."""

from __future__ import annotations

import pytest

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
