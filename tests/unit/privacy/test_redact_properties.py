"""Planted secrets in generated surroundings, idempotence, and work that grows with the length only."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.privacy.blocks import CUT_NOTE, MAX_RECORD_SIZE, blocks
from analyzers.privacy.redact import Redactor, redact_args, redact_env, redact_text

PROPERTY = settings(max_examples=150, deadline=None, derandomize=True)
PIECES = st.sampled_from(
    [
        "request: ",
        "response: {",
        "Authorization: ",
        "Bearer ",
        '"content":',
        '"prompt":"',
        '\\"prompt\\":\\"',
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        "'",
        "\n",
        "\r\n",
        " ",
        "--api-key ",
        "--api-key\n",
        "api_key=",
        "HF_TOKEN=",
        "://",
        "@",
        "a.b@c.de",
        "8.8.8.8",
        "/home/jane/",
        "«redacted»",
        "«",
        "[redacted]",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "eyJhbGciOi.eyJzdWIi.x",
        "sk-abcdefghijkl",
        "last read: '",
        "next token: 5 '",
        "prompt: '",
        "0.01.059.063 I que    start_loop: entering sleeping state",
        "srv  load: x",
        '{"type":"log","msg":"',
        "?token=",
        "abc",
        "7",
        "\x1b[0m",
        "é",
        "İ",
    ]
)
NOISE = st.lists(PIECES, max_size=14).map("".join)
SECRETS = st.text(alphabet=string.ascii_letters + string.digits + "-_", min_size=12, max_size=40).map(
    lambda tail: "Kq7" + tail
)
QUIET = st.text(alphabet=string.ascii_letters + string.digits + " .,:;()[]=/", max_size=60)


@PROPERTY
@given(st.one_of(NOISE, st.text(max_size=120)))
def test_redaction_is_idempotent(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@PROPERTY
@given(st.lists(st.one_of(NOISE, st.sampled_from(["--api-key", "-p", "--x-token", "-m"])), max_size=6))
def test_redacting_arguments_is_idempotent_and_keeps_their_number(args: list[str]) -> None:
    once = redact_args(args)
    assert len(once) == len(args)
    assert redact_args(once) == once


@PROPERTY
@given(st.dictionaries(st.sampled_from(["HF_TOKEN", "LANG", "FOO", "LLAMA_API_KEY", "PATH"]), NOISE))
def test_redacting_an_environment_is_idempotent(env: dict[str, str]) -> None:
    once = redact_env(env)
    assert redact_env(once) == once


@PROPERTY
@given(SECRETS, NOISE, NOISE)
def test_a_known_secret_survives_nowhere(secret: str, before: str, after: str) -> None:
    assert secret not in Redactor().knowing(values=[secret]).text(before + secret + after)


CARRIERS = [
    "Authorization: Bearer {}",
    "X-Api-Key: {}",
    "--api-key {}",
    "--api-key={}",
    "api_key={}",
    "HF_TOKEN={}",
    "sk-{}",
    "https://user:{}@host/x",
    "https://host/x?api_key={}",
    "Cookie: sid={}",
]


@pytest.mark.parametrize("carrier", CARRIERS)
@PROPERTY
@given(secret=SECRETS, before=QUIET, after=QUIET)
def test_a_planted_secret_survives_in_no_surroundings(
    carrier: str, secret: str, before: str, after: str
) -> None:
    # GIVEN a carrier on its own line or behind other words
    for text in (
        f"{before}\n{carrier.format(secret)}\n{after}",
        f"{before} {carrier.format(secret)} {after}",
        f"\x1b[0m{carrier.format(secret)}\x1b[0m",
    ):
        # THEN the secret is gone as text, as a JSON string, and as a string in a JSON log line
        assert secret not in redact_text(text)
        assert secret not in redact_text(json.dumps({"MESSAGE": text}))
        assert secret not in redact_text(json.dumps({"log": json.dumps({"msg": text})}))


BODIES = st.recursive(
    st.one_of(st.text(max_size=20), st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@PROPERTY
@given(
    SECRETS, BODIES, st.sampled_from(["prompt", "messages", "input", "content"]), st.sampled_from([None, 2])
)
def test_a_prompt_survives_in_no_body(secret: str, extra: object, key: str, indent: int | None) -> None:
    # GIVEN a request body as clients send it, whole or cut anywhere behind the prompt's beginning
    body = json.dumps({key: [{"content": f"say {secret} twice"}], "extra": extra}, indent=indent)
    for text in (body, f"srv  log_server_r: request:  {body}\nsrv  update_slots: all slots are idle"):
        assert secret not in redact_text(text)
        assert secret not in redact_text(text[: text.index(secret) + len(secret)])


@PROPERTY
@given(SECRETS, BODIES, BODIES, st.sampled_from([0, 2]))
def test_a_logged_body_goes_whatever_its_keys(
    secret: str, one: object, two: object, indent: int | None
) -> None:
    body = json.dumps([one, {"a": 1}, {"any": [two, secret], "x": secret}, one], indent=indent)
    line = "srv  update_slots: all slots are idle"
    cleaned = redact_text(f"srv  log_server_r: request:  {body}\n{line}")
    assert secret not in cleaned
    assert cleaned.endswith("\n" + line)


@PROPERTY
@given(NOISE, st.integers(1, 9))
def test_cutting_a_text_into_pieces_changes_nothing(text: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert "".join(Redactor().pieces(pieces)) == redact_text(text)


LINE = "0.01.059.063 I que    start_loop: entering sleeping state\n"


def test_a_long_log_is_cleaned_in_blocks_without_losing_a_line() -> None:
    body = 'srv  log_server_r: request:  {"messages":[{"content":"my\nzebra"}]}\n'
    text = (LINE * 50 + body) * 400
    assert all(len(block) <= MAX_RECORD_SIZE for block in blocks([text]))
    cleaned = redact_text(text)
    assert "zebra" not in cleaned
    assert cleaned.count(LINE) == text.count(LINE)


def test_an_endless_body_is_cut_and_the_line_after_it_stays() -> None:
    # GIVEN a prompt of several times the longest record
    text = 'request: {"prompt":"' + "zebra " * (MAX_RECORD_SIZE // 2) + "\n" + LINE
    # WHEN it is redacted
    cleaned = redact_text(text)
    # THEN nothing of it is left, and the line behind it is
    assert "zebra" not in cleaned
    assert CUT_NOTE.strip() in cleaned
    assert cleaned.endswith(LINE)


SEEDS = [
    "a",
    " ",
    "\\",
    '"',
    "a@",
    "1.",
    "{",
    "://",
    "--",
    "A_",
    "[ 80",
    "2001:",
    "eyJ",
    "\n",
    "\r",
    "request: {",
]


@pytest.mark.parametrize(
    "seed", [*SEEDS, "request: {", '"content":"', '"content":[', "last read: '", "Authorization: "]
)
def test_work_grows_with_the_length_only(seed: str) -> None:
    # A pattern that goes back over its own text would take hours here, not seconds.
    text = seed * (300_000 // len(seed))
    assert redact_text(text) is not None
