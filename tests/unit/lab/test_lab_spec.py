"""Command lines, parameters, ports and what gdb says."""

import json
import signal
import socket
import sys
import types
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.lab.reference import debugger
from collector.lab.reference.ports import choose_port, free_port
from collector.lab.reference.spec import ServerSpec, command, environment, hosted_parameters

MODEL = Path("/m/a b.gguf")
PYTHON = Path("/venv/bin/python")
BINARY = Path("/opt/build/llama-server")


def test_hosted_parameters_are_one_json_argument():
    spec = ServerSpec(MODEL, python=PYTHON, idle_seconds=3, parameters={"n_batch": 32})
    *_, text = command(spec, 8123)
    given = json.loads(text)
    assert given["model"] == str(MODEL)
    assert (given["port"], given["sleep_idle_seconds"], given["n_batch"]) == (8123, 3, 32)
    assert given["warmup"] is False


def test_what_is_not_set_is_left_to_the_build():
    plain = hosted_parameters(ServerSpec(MODEL, python=PYTHON), 1)
    assert {"api_keys", "verbosity", "n_threads_http"}.isdisjoint(plain)
    full = ServerSpec(MODEL, python=PYTHON, api_key="k", verbosity=4, http_threads=2, draft=Path("/d"))
    given = hosted_parameters(full, 1)
    assert given["api_keys"] == ["k"]
    assert given["draft"] == "/d"


def test_native_arguments_carry_the_same_settings():
    spec = ServerSpec(MODEL, binary=BINARY, idle_seconds=2, arguments=("--log-jsonl",))
    argv = command(spec, 8123)
    assert argv[0] == str(BINARY)
    assert argv[argv.index("--sleep-idle-seconds") + 1] == "2"
    assert argv[argv.index("--port") + 1] == "8123"
    assert {"--no-warmup", "--metrics", "--log-jsonl"} <= set(argv)
    assert "--api-key" not in argv


def test_a_server_is_hosted_or_native_but_not_both():
    for wrong in ({}, {"python": PYTHON, "binary": BINARY}):
        with pytest.raises(ValueError, match="either"):
            ServerSpec(MODEL, **wrong)


def test_poison_and_libraries_reach_the_environment(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    poisoned = environment(ServerSpec(MODEL, python=PYTHON, poisoned=True))
    assert poisoned["MALLOC_PERTURB_"] == "165"
    # AND no list gives a freed block back as it was: the reload would come to lie where the old model lay
    assert {"glibc.malloc.tcache_count=0", "glibc.malloc.mxfast=0"} <= set(
        poisoned["GLIBC_TUNABLES"].split(":")
    )
    native = environment(ServerSpec(MODEL, binary=BINARY, environment={"X": "1"}))
    assert native["LD_LIBRARY_PATH"] == "/opt/build:/before"
    assert native["X"] == "1"
    assert "MALLOC_PERTURB_" not in native


@pytest.mark.parametrize("program", [{"python": PYTHON}, {"binary": BINARY}])
def test_variables_that_are_a_servers_arguments_do_not_reach_it(monkeypatch, program):
    """LLAMA_API_KEY made every start wait for its whole deadline; a draft's path blamed our model."""
    for name in ("LLAMA_API_KEY", "LLAMA_ARG_SPEC_DRAFT_MODEL", "LLAMA_LOG_VERBOSITY", "LLAMA_CACHE"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("HOME_OF_LLAMA_", "kept")
    made = environment(ServerSpec(MODEL, **program, environment={"LLAMA_ARG_TOP_K": "1"}))
    assert [name for name in made if name.startswith("LLAMA_")] == ["LLAMA_ARG_TOP_K"]
    assert made["HOME_OF_LLAMA_"] == "kept"


def test_a_sanitized_program_ends_as_a_crash_does_however_it_is_started(monkeypatch):
    """Behind a wrapper script nobody can see that it is one."""
    monkeypatch.setenv("ASAN_OPTIONS", "abort_on_error=0:log_path=/tmp/x:suppressions=mine")
    said = dict(
        each.split("=") for each in environment(ServerSpec(MODEL, binary=BINARY))["ASAN_OPTIONS"].split(":")
    )
    assert (said["abort_on_error"], said["log_path"], said["suppressions"]) == ("1", "stderr", "mine")


@pytest.fixture
def hosted(monkeypatch):
    """The script that runs inside an environment, with a wheel made of plain attributes."""
    monkeypatch.setitem(sys.modules, "xllamacpp", types.SimpleNamespace())
    monkeypatch.delitem(sys.modules, "collector.lab.reference.hosted", raising=False)
    import collector.lab.reference.hosted as module

    yield module
    sys.modules.pop("collector.lab.reference.hosted")


def wheel(hosted, **names):
    params = types.SimpleNamespace(model=types.SimpleNamespace(path=""), port=0, **names)
    hosted.xllamacpp.CommonParams = lambda: params
    return params


@pytest.mark.parametrize(
    ("names", "host"), [({"hostnames": []}, ["127.0.0.1"]), ({"hostname": ""}, "127.0.0.1")]
)
def test_old_and_new_wheels_are_told_where_to_listen(hosted, names, host):
    params = wheel(hosted, **names)
    hosted.parameters({"model": "m", "port": 5})
    assert next(value for name, value in vars(params).items() if name.startswith("hostname")) == host
    assert (params.model.path, params.port) == ("m", 5)


def test_a_parameter_the_wheel_lacks_is_named(hosted, capsys, monkeypatch):
    wheel(hosted, hostname="")
    monkeypatch.setattr(sys, "argv", ["hosted.py", json.dumps({"model": "m", "no_such": 1})])
    assert hosted.main() == hosted.USAGE_STATUS
    assert "no_such" in capsys.readouterr().out


def test_dotted_names_reach_nested_parameters(hosted):
    params = wheel(hosted, hostname="", cpuparams=types.SimpleNamespace(n_threads=0))
    hosted.parameters({"model": "m", "cpuparams.n_threads": 2})
    assert params.cpuparams.n_threads == 2


def test_a_free_port_can_be_bound_and_a_taken_one_is_refused():
    port = free_port()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        with pytest.raises(UserError, match=str(port)):
            choose_port(port)
    assert choose_port(port) == port


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(UserError, match="65535"):
        choose_port(port)


def test_gdb_runs_no_code_that_comes_with_a_target(monkeypatch, tmp_path):
    monkeypatch.setattr(debugger.shutil, "which", lambda _: "/usr/bin/gdb")
    argv = debugger.debugged(["/bin/server", "--x"], tmp_path / "core")
    assert argv[-3:] == ["--args", "/bin/server", "--x"]
    assert "-nx" in argv
    early = [argv[number + 1] for number, part in enumerate(argv) if part == "-iex"]
    assert {"set auto-load off", "set debuginfod enabled off"} <= set(early)


def test_without_gdb_the_user_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(debugger.shutil, "which", lambda _: None)
    with pytest.raises(UserError, match="apt-get install gdb"):
        debugger.debugged(["x"], tmp_path / "core")


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ('Thread 9 "python" received signal SIGSEGV, Segmentation fault.', signal.SIGSEGV, None),
        ("Program received signal SIGABRT, Aborted.", signal.SIGABRT, None),
        ("Program terminated with signal SIGKILL, Killed.", signal.SIGKILL, None),
        ("Thread 2 received signal SIGUSR1, User defined signal 1.", None, None),
        ("[Inferior 1 (process 7) exited normally]", None, 0),
        ("[Inferior 1 (process 7) exited with code 012]", None, 10),
        ("0.01 I srv init: model loaded", None, None),
    ],
)
def test_gdbs_words_become_an_ending(line, number, code):
    assert debugger.signal_in(line) == number
    assert debugger.exit_code_in(line) == code
