"""Real servers of both builds: started, waited for, stopped, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.lab.reference import ModelSpec, ReferenceServer, Request, ServerSpec, cached_model
from collector.lab.reference.conditions import asleep, exited, lines, sleeps
from collector.lab.reference.ports import free_port

pytestmark = pytest.mark.real


def state(pid):
    """The process's state letter; X when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def gone(pid):
    return state(pid) in "ZX"


def wait_gone(pid, deadline=10.0):
    end = time.monotonic() + deadline
    while not gone(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return gone(pid)


def test_a_server_sleeps_wakes_and_stops(lab, hosted):
    # GIVEN a server with an idle limit of one second
    server = lab.start(replace(hosted, idle_seconds=1))
    # WHEN it is left alone THEN it sleeps, and looking at that does not wake it
    assert server.wait_until(asleep, 5)
    assert server.wait_until(asleep, 0)
    # WHEN it is asked something THEN it answers, and says that it woke
    assert server.post("/completion", {"prompt": "hello", "n_predict": 1}).status == 200
    assert server.wait_until(lines("exiting sleeping state"), 2)
    assert server.wait_until(sleeps(2), 5)
    # WHEN it is told to stop THEN it ends itself; each line has its time, the file has all of them
    ending = server.terminate()
    assert (ending.signal, ending.code) == (None, 0)
    stamps = [line.mono for line in server.output.lines()]
    assert stamps == sorted(stamps)
    assert server.started_mono <= stamps[0] <= ending.when_mono
    server.take_down()
    assert b"entering sleeping state" in server.output.path.read_bytes()
    assert gone(server.pid)


def test_an_api_key_guards_and_is_sent(lab, hosted):
    server = lab.start(replace(hosted, api_key="lab-key", slots=2, verbosity=4))
    assert server.get("/slots").status == 200
    server.spec = replace(server.spec, api_key=None)
    assert server.get("/slots").status == 401


def test_a_padded_model_with_a_large_vocabulary_loads(lab, hosted):
    model = cached_model(ModelSpec(layers=2, vocabulary=8000, padding_mib=4))
    server = lab.start(replace(hosted, model=model))
    answer = server.post("/tokenize", {"content": "hello world"})
    assert answer.status == 200
    assert answer.json()["tokens"]


def test_leaving_the_context_takes_everything_down(hosted, tmp_path):
    with ReferenceServer(tmp_path) as lab:
        pids = [lab.start(hosted).pid for _ in range(2)]
        assert not any(gone(pid) for pid in pids)
    assert all(wait_gone(pid) for pid in pids)


def test_a_killed_parent_takes_its_server_along(hosted, tmp_path):
    # GIVEN another process that has started a server
    script = (
        "import sys, time; from pathlib import Path; from collector.lab.reference import *\n"
        "folder, model, python = map(Path, sys.argv[1:])\n"
        "server = ReferenceServer(folder).start(ServerSpec(model, python=python))\n"
        "print(server.pid, flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", script, str(tmp_path), str(hosted.model), str(hosted.python)]
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root}
    ) as parent:
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        # WHEN it is killed, so that none of its own clean-up runs THEN its server dies as well
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
    assert wait_gone(pid)


def test_a_taken_port_is_refused(lab, hosted):
    port = free_port()
    lab.start(replace(hosted, port=port))
    with pytest.raises(UserError, match=f"{port}"):
        lab.start(replace(hosted, port=port))


def test_what_is_not_a_model_is_refused_with_the_servers_own_words(lab, hosted, tmp_path):
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"not a model")
    with pytest.raises(UserError, match=r"ended with status 1.* E ") as caught:
        lab.start(replace(hosted, model=wrong))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("program", "words"), [("/bin/true", "no output at all"), ("/bin/cat", "option|usage|cat")]
)
def test_a_binary_that_is_no_server_is_refused(lab, hosted, program, words):
    with pytest.raises(UserError, match=words):
        lab.start(ServerSpec(hosted.model, binary=Path(program)))


NATIVE = """#!{python}
import sys, time, xllamacpp
argv = sys.argv[1:]
value = lambda name: argv[argv.index(name) + 1]
params = xllamacpp.CommonParams()
params.model.path, params.port, params.hostnames = value("-m"), int(value("--port")), [value("--host")]
params.sleep_idle_seconds, params.n_ctx = int(value("--sleep-idle-seconds")), int(value("-c"))
params.endpoint_metrics, params.warmup = "--metrics" in argv, "--no-warmup" not in argv
server = xllamacpp.Server(params)
time.sleep(60)
"""


def test_a_binary_that_takes_a_servers_arguments_is_run(lab, hosted, tmp_path):
    # GIVEN a program with llama-server's command line (its arguments feed the hosted server here)
    program = tmp_path / "llama-server"
    program.write_text(NATIVE.format(python=hosted.python))
    program.chmod(0o755)
    # WHEN it is started as a native binary THEN it serves, and sleeps when it was told to
    server = lab.start(ServerSpec(hosted.model, binary=program, idle_seconds=1))
    assert server.post("/tokenize", {"content": "hello"}).status == 200
    assert server.wait_until(asleep, 5)
    assert server.terminate().signal == signal.SIGTERM


def test_a_parameter_this_wheel_lacks_is_named(lab, hosted):
    with pytest.raises(UserError, match="no_such_parameter"):
        lab.start(replace(hosted, parameters={"no_such_parameter": 1}))


def test_a_request_that_nobody_answers_times_out(lab, hosted):
    server = lab.start(hosted)
    os.kill(server.pid, signal.SIGSTOP)
    assert server.wait_until(lambda each: state(each.pid) == "T", 5)
    answer = server.send(Request("GET", "/health", timeout=0.2))
    assert answer.timed_out
    os.kill(server.pid, signal.SIGCONT)
    assert not server.wait_until(exited, 0)
