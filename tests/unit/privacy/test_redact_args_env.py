"""Argument lists and environments."""

from __future__ import annotations

import pytest

from analyzers.privacy.redact import MARKER, Redactor, redact_args, redact_env

KEY = "Zq8-planted_W4x"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--api-key", KEY], ["--api-key", MARKER]),
        ([f"--api-key={KEY}"], [f"--api-key={MARKER}"]),
        (["--api-key", "--odd", "--port", "1"], ["--api-key", MARKER, "--port", "1"]),
        (["-hft", KEY], ["-hft", MARKER]),
        (["--hf-token", KEY], ["--hf-token", MARKER]),
        (["--my-secret", KEY], ["--my-secret", MARKER]),
        (["--db-password", KEY], ["--db-password", MARKER]),
        (["--cors-credentials", "--port", "80"], ["--cors-credentials", "--port", "80"]),
        (["--api-key-file", "/etc/keys"], ["--api-key-file", "/etc/keys"]),
        (["--api-key-file=/home/jane/keys"], ["--api-key-file=/home/~/keys"]),
        (["--ssl-key-file", "/etc/k.pem"], ["--ssl-key-file", "/etc/k.pem"]),
        (["--image-max-tokens", "1024"], ["--image-max-tokens", "1024"]),
        (["--keep", "12", "--cache-type-k", "q8_0"], ["--keep", "12", "--cache-type-k", "q8_0"]),
        (["--prompt", "tell me"], ["--prompt", MARKER]),
        (["-p", "tell me"], ["-p", MARKER]),
        (["-p", "8080:80"], ["-p", "8080:80"]),
        (["-m", "/home/jane/tiny.gguf"], ["-m", "/home/~/tiny.gguf"]),
        (["--model-url", f"https://u:{KEY}@h/x.gguf"], ["--model-url", f"https://{MARKER}@h/x.gguf"]),
        (["-c", "512", "--sleep-idle-seconds", "60"], ["-c", "512", "--sleep-idle-seconds", "60"]),
        (["--mcp-servers-json", '{"a":1}'], ["--mcp-servers-json", MARKER]),
        (["--api-key", ""], ["--api-key", ""]),
        (["--api-key"], ["--api-key"]),
        ([], []),
    ],
)
def test_args(args: list[str], expected: list[str]) -> None:
    assert redact_args(args) == expected
    assert redact_args(expected) == expected


def test_env_keeps_names_and_only_values_that_are_evidence() -> None:
    # GIVEN an environment of a service
    env = {
        "LLAMA_API_KEY": KEY,
        "HF_TOKEN": KEY,
        "LLAMA_ARG_SSL_KEY_FILE": "/etc/k.pem",
        "LLAMA_ARG_SLEEP_IDLE_SECONDS": "60",
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        "MALLOC_PERTURB_": "165",
        "CUDA_VISIBLE_DEVICES": "0",
        "HOME": "/home/jane",
        "INNOCENT_NAME": KEY,
        "EMPTY": "",
    }
    # WHEN it is redacted
    cleaned = redact_env(env)
    # THEN every name stays, evidence stays, and no other value does
    assert list(cleaned) == list(env)
    assert KEY not in cleaned.values()
    assert cleaned["MALLOC_PERTURB_"] == "165"
    assert cleaned["GLIBC_TUNABLES"] == "glibc.malloc.tcache_count=0"
    assert cleaned["LLAMA_ARG_SLEEP_IDLE_SECONDS"] == "60"
    assert cleaned["LLAMA_ARG_SSL_KEY_FILE"] == "/etc/k.pem"
    assert cleaned["HOME"] == "/home/~"
    assert cleaned["EMPTY"] == ""
    assert redact_env(cleaned) == cleaned


def test_env_text_hides_the_later_lines_of_a_value() -> None:
    text = "LANG=C\nNOTE=first line\nsecond planted line\nOMP_NUM_THREADS=2"
    assert Redactor().env_text(text, "\n") == f"LANG=C\nNOTE={MARKER}\n{MARKER}\nOMP_NUM_THREADS=2"


@pytest.mark.parametrize(
    "knowing",
    [
        {"args": ["--api-key", KEY]},
        {"args": [f"--api-key={KEY}"]},
        {"args": ["--api-key", f"other-key-1,{KEY}"]},
        {"args": ["-hft", KEY]},
        {"env": {"LLAMA_API_KEY": KEY}},
        {"env": {"HF_TOKEN": KEY}},
        {"command": f"llama-server --api-key '{KEY}' --port 1"},
        {"command": f"llama-server --api-key {KEY} --broken 'quote"},
        {"values": [KEY]},
    ],
)
def test_a_known_secret_goes_wherever_it_turns_up(knowing: dict[str, object]) -> None:
    # GIVEN a redactor that has seen a key
    redactor = Redactor().knowing(**knowing)  # type: ignore[arg-type]
    # WHEN the key turns up where no rule would look
    text = f"user typed {KEY}x and {KEY} in a crash note"
    # THEN it is gone, and the redactor itself does not print it either
    assert KEY not in redactor.text(text)
    assert KEY not in repr(redactor)


def test_a_known_secret_goes_in_its_url_and_json_spellings() -> None:
    redactor = Redactor().knowing(values=['a/b"c\\d+e é'])
    text = 'GET /x?v=a%2Fb%22c%5Cd%2Be%20%C3%A9 and {"v":"a/b\\"c\\\\d+e é"}'
    assert redactor.text(text) == f'GET /x?v={MARKER} and {{"v":"{MARKER}"}}'


def test_a_short_secret_goes_only_as_a_word_and_a_tiny_one_is_not_hunted() -> None:
    redactor = Redactor().knowing(args=["--api-key", "load,ab"])
    assert redactor.text("load: reload load_model ab") == f"{MARKER}: reload load_model ab"


def test_knowing_leaves_the_first_redactor_as_it_was() -> None:
    plain = Redactor()
    plain.knowing(values=[KEY])
    assert plain.text(f"x {KEY}") == f"x {KEY}"
