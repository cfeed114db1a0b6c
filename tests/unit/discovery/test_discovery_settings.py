"""Settings: four ways to give one, three spellings of its name, and what must not be kept."""

from __future__ import annotations

import pytest

from analyzers.privacy.redact import Redactor
from collector.discovery.options import named, variable
from collector.discovery.presets import MAX_PROBLEMS, parse, section_name
from collector.discovery.settings import (
    config_paths,
    effective,
    from_command_line,
    from_environment,
    public,
    with_sections,
)


@pytest.mark.parametrize(
    ("word", "setting"),
    [
        ("-c", ("ctx-size", False)),
        ("--ctx_size", ("ctx-size", False)),
        ("-ngl", ("n-gpu-layers", False)),
        ("--gpu-layers", ("n-gpu-layers", False)),
        ("--no-slots", ("slots", True)),
        ("-nkvo", ("kv-offload", True)),
        ("--no-host", ("no-host", False)),  # a setting of its own, not the denial of --host
        ("LLAMA_ARG_BATCH", ("batch-size", False)),
        ("sleep-idle-seconds", ("sleep-idle-seconds", False)),
        ("an-option-of-next-year", ("an-option-of-next-year", False)),
    ],
)
def test_one_setting_has_many_names(word: str, setting: tuple[str, bool]) -> None:
    assert named(word) == setting


def test_variables() -> None:
    assert variable("LLAMA_API_KEY") == ("api-key", False)
    assert variable("HF_TOKEN") == ("hf-token", False)
    assert variable("LLAMA_ARG_N_PARALLEL") == ("parallel", False)
    assert variable("LLAMA_ARG_NO_SLOTS") == ("slots", True)
    assert variable("LLAMA_ARG_NO_HOST") == ("no-host", False)
    assert variable("LLAMA_ARG_NEW_OPTION") == ("new-option", False)
    assert [variable(name) for name in ("PATH", "LLAMA_ARG_", "LLAMA_ARG_" + "A" * 1000)] == [None] * 3


def test_the_stronger_origin_counts() -> None:
    # GIVEN one setting given in every way
    config = [("/etc/x.ini", {"ctx-size": "1", "batch-size": "1", "threads": "1", "port": "1"})]
    env = {"LLAMA_ARG_CTX_SIZE": "2", "LLAMA_ARG_BATCH": "2", "LLAMA_ARG_PORT": "2", "PATH": "/bin"}
    made = effective(["-c", "3", "-c", "4", "--port", "3"], env, config)
    # THEN the command line is over the environment, that over the file, the last of two over the first
    assert made.rows["ctx-size"] == ("4", "command-line")
    assert made.rows["batch-size"] == ("2", "environment")
    assert made.rows["threads"] == ("1", "config:/etc/x.ini")
    assert made.rows["sleep-idle-seconds"] == ("-1", "default")
    assert made.told("host") is None
    assert made.number("port") == 3


def test_words_of_a_command_line() -> None:
    words = ["--metrics", "--sleep-idle-seconds", "-1", "-fa", "--no-slots", "--port=81", "stray", "--model"]
    assert from_command_line(words) == {
        "metrics": "true",
        "sleep-idle-seconds": "-1",
        "flash-attn": "true",  # older builds take no value
        "slots": "false",
        "port": "81",
        "model": "true",
    }


@pytest.mark.parametrize("text", ["", "x", "1e9", "9" * 400, "٣", "1 2", "--port"])
def test_a_number_that_is_none(text: str) -> None:
    assert effective([f"--port={text}"], {}).number("port") in (None, 3)


def test_an_option_of_a_megabyte() -> None:
    # GIVEN words as long as a process likes
    words = ["-" + "a" * (1 << 20), "--alias", "b" * (1 << 20), *(["--lora", "x"] * 5000)]
    made = from_command_line(words)
    # THEN what is kept is bounded
    assert len(repr(made)) < 10_000


def test_secrets_and_prompts_are_not_kept() -> None:
    # GIVEN keys given in every way, and one named again in a harmless place
    key, token, other = "sk-abcdef0123456789", "hf_abcdefghijklmnop", "pw-another-secret"
    args = ["llama-server", "--api-key", key, "-p", "a question of somebody", "--alias", f"model-{key}"]
    env = {"HF_TOKEN": token, "LLAMA_ARG_SSL_KEY_FILE": "/k.pem", "LLAMA_ARG_MY_PASSWORD": other}
    preset = parse(f"[tiny]\nhf-token = {token}\nctx-size = 5\n")
    # WHEN they are made public
    rows = public(effective(args[1:], env), Redactor().knowing(args=args, env=env), preset)
    # THEN their names stay, with the word "set"; a key file's path is no secret
    said = repr(rows)
    assert not [one for one in (key, token, other, "a question") if one in said]
    values = {(one.name, one.origin): one.value for one in rows}
    assert values["api-key", "command-line"] == values["hf-token", "environment"] == "set"
    assert values["hf-token", "preset:tiny"] == "set"
    assert values["ssl-key-file", "environment"] == "/k.pem"
    assert values["ctx-size", "preset:tiny"] == "5"


PRESET = """version = 1
; a remark
[*]
ctx-size = 4096   # what all have
LLAMA_ARG_THREADS = 2
[ org/model-GGUF:q4_k_m ]
m = /models/a b.gguf
no-slots = true
sleep-idle-seconds=30
[tiny]
model = /first.gguf
[tiny]
model = /second.gguf
"""


def test_a_preset_file() -> None:
    made = parse(PRESET)
    assert made.problems == ()
    assert made.sections == {
        "*": {"ctx-size": "4096", "threads": "2"},
        "org/model-GGUF:Q4_K_M": {"model": "/models/a b.gguf", "slots": "false", "sleep-idle-seconds": "30"},
        "tiny": {"model": "/second.gguf"},
    }
    assert made.of("tiny") == {
        "ctx-size": ("4096", "*"),
        "threads": ("2", "*"),
        "model": ("/second.gguf", "tiny"),
    }


def test_a_childs_settings_name_their_section() -> None:
    # GIVEN a child's command line, as a router renders it, and one value that is not from the file
    own = effective(["--ctx-size", "4096", "--model", "/second.gguf", "--port", "5", "--threads", "8"], {})
    made = with_sections(own, parse(PRESET), "tiny")
    assert made.rows["ctx-size"] == ("4096", "preset:*")
    assert made.rows["model"] == ("/second.gguf", "preset:tiny")
    assert made.rows["port"] == ("5", "command-line")
    assert made.rows["threads"] == ("8", "command-line")


@pytest.mark.parametrize(
    ("name", "kept"),
    [("a:q8_0", "a:Q8_0"), ("a/b:UD-q4_k_m", "a/b:Q4_K_M"), ("plain", "plain"), (":x", ":x"), ("*", "*")],
)
def test_a_section_is_named_as_its_model(name: str, kept: str) -> None:
    assert section_name(name) == kept


@pytest.mark.parametrize(
    "text", ["no equals", " indented = 1", "[open", "[]", "\x1b[31m = x", "=", "[a]]\n", "\0\0\0", "é = 1"]
)
def test_a_line_that_the_server_refuses(text: str) -> None:
    # GIVEN a file with one line that is no setting, between good ones
    made = parse(f"[one]\nport = 1\n{text}\nhost = h\n")
    # THEN it is a problem that names the line and not its words, and the good ones are kept
    assert "line 3" in made.problems[0]
    assert "\x1b" not in repr(made.problems)
    assert made.sections["one"] == {"port": "1", "host": "h"}


def test_a_preset_of_rubbish_is_bounded() -> None:
    made = parse("\n".join(["rubbish"] * 5000 + [f"[s{n}]\nport = 1" for n in range(3000)]))
    assert len(made.problems) == MAX_PROBLEMS
    assert len(made.sections) == 1000


def test_configuration_files_follow_the_servers_own_environment() -> None:
    system = "/etc/llama.cpp/config.ini"
    assert config_paths({}) == [system]
    assert config_paths({"HOME": "/home/a"}) == [system, "/home/a/.config/llama.cpp/config.ini"]
    assert config_paths({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == [system, "/x/llama.cpp/config.ini"]


def test_an_empty_variable_is_a_setting_of_nothing() -> None:
    assert from_environment({"LLAMA_ARG_MODEL": ""}) == {"model": ""}
    assert effective([], {"LLAMA_ARG_MODEL": ""}).get("model") is None
