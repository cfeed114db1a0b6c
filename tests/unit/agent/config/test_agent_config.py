"""The agent's settings file: what is right is taken, what is wrong is refused in one line that names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.agent.config.load import load_config, parse_config, read_secret
from collector.agent.config.model import Config


def test_an_empty_file_is_the_defaults():
    assert parse_config(b"", "agent.toml") == Config()
    assert parse_config(b"", "agent.toml").stranded.after_seconds == 10.0
    assert not parse_config(b"", "agent.toml").probes.metrics
    assert not parse_config(b"", "agent.toml").stranded.release


def test_every_table_can_be_set():
    text = b"""
    [agent]
    tick_seconds = 0.5
    [outbox]
    folder = "/tmp/x"
    [probes]
    every_seconds = 5
    [[target]]
    unit = "llama.service"
    metrics = true
    api_key_file = "/etc/key"
    prefix = "/a/b"
    [hub]
    url = "https://hub.example"
    """
    config = parse_config(text, "agent.toml")
    assert config.outbox.folder == Path("/tmp/x")
    assert config.probes.every_seconds == 5
    assert config.target[0].metrics is True
    assert config.hub is not None
    assert config.hub.url == "https://hub.example"


REFUSED = [
    (b"[agent]\nstat = 'x'", "agent.stat: is not a known name"),
    (b"[agnet]\n", "agnet: is not a known name"),
    (b"[[target]]\nwatch = false", "names no server"),
    (b"[[target]]\nport = 8080\nhost = 'localhost'", "target.0.host"),
    (b"[[target]]\nport = 0", "target.0.port"),
    (b"[[target]]\nport = 1\nprefix = 'x'", "target.0.prefix"),
    (b"[stranded]\nafter_seconds = 0.1", "stranded.after_seconds"),
    (b"[stranded]\nafter_seconds = nan", "stranded.after_seconds"),
    (b"[probes]\nevery_seconds = -1", "probes.every_seconds"),
    (b"[outbox]\nmax_bytes = 1", "outbox.max_bytes"),
    (b"[hub]\nurl = 'ftp://x'", "hub.url"),
    (b"a = ", "not TOML"),
    (b"a = " + b"[" * 5000, "not TOML"),
    (b"\xff", "not UTF-8"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_is_wrong_is_named_in_one_line(text, said):
    with pytest.raises(UserError) as refused:
        parse_config(text, "agent.toml")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_secret_in_the_wrong_place_is_not_repeated():
    with pytest.raises(UserError) as refused:
        parse_config(b"[hub]\nurl = 'http://user:hunter2@hub'", "agent.toml")
    assert "hunter2" not in str(refused.value)


def test_control_characters_of_the_file_do_not_reach_the_terminal():
    with pytest.raises(UserError) as refused:
        parse_config(b'["\\u001b[31m"]', "agent.toml")
    assert "\x1b" not in str(refused.value)


def test_a_named_file_that_is_absent_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        load_config(tmp_path / "none.toml")


def test_a_fifo_in_the_place_of_the_file_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "agent.toml")
    with pytest.raises(UserError, match="no regular file"):
        load_config(tmp_path / "agent.toml")


def test_a_huge_file_is_refused(tmp_path):
    (tmp_path / "agent.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(UserError, match="over 1048576 bytes"):
        load_config(tmp_path / "agent.toml")


def key_file(folder: Path, text: str, mode: int) -> Path:
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_a_key_that_only_its_owner_and_group_may_read_is_taken(tmp_path, mode):
    assert read_secret(key_file(tmp_path, "s3cret\nsecond line\n", mode)) == "s3cret"


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o660, 0o602])
def test_a_key_that_others_may_read_or_change_is_refused(tmp_path, mode):
    with pytest.raises(UserError, match="chmod 600"):
        read_secret(key_file(tmp_path, "s3cret\n", mode))


@pytest.mark.parametrize("text", ["", "\n", "kéy\n", "a\x00b\n", "\x1b[31m\n"])
def test_what_is_no_key_is_refused_without_being_repeated(tmp_path, text):
    with pytest.raises(UserError, match="no usable key"):
        read_secret(key_file(tmp_path, text, 0o600))
