"""A gdb that is missing, may not trace, or does not run the server: one line that says so."""

import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from analyzers.errors import UserError
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.directed import debugged as module
from collector.lab.verify.directed.cli import directed
from collector.lab.verify.directed.debugged import debugged, find_gdb
from collector.lab.verify.directed.points import POINTS

# Stands in for gdb: answers each command, and -exec-run with the lines it is given.
FAKE = """#!{python}
import sys
RUN = {run!r}
for line in sys.stdin:
    text = line.rstrip()
    token = text[: len(text) - len(text.lstrip("0123456789"))]
    lines = RUN if "-exec-run" in text else ["TOKEN^done"]
    for each in lines:
        if each == "END":
            sys.exit(0)
        print(each.replace("TOKEN", token), flush=True)
"""


@pytest.fixture
def fake_gdb(tmp_path):
    def make(*run):
        path = tmp_path / "gdb"
        path.write_text(FAKE.format(python=sys.executable, run=list(run)))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def spec(tmp_path):
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    return ServerSpec(model, binary=Path("/bin/true"))


def test_a_missing_gdb_is_named_with_its_package(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UserError, match="apt-get install gdb"):
        find_gdb()


@pytest.mark.parametrize(
    "run",
    [
        [
            '&"warning: ptrace: Operation not permitted\\n"',
            'TOKEN^error,msg="During startup program exited with code 127."',
        ],
        ['TOKEN^error,msg="Cannot create process: Operation not permitted"'],
        ['TOKEN^error,msg="Could not trace the inferior process."'],
        ['&"warning: Could not trace the inferior process.\\n"', "END"],
    ],
    ids=["startup", "create", "trace", "ended"],
)
def test_no_right_to_trace_is_told_in_one_line(fake_gdb, spec, tmp_path, run):
    with (
        pytest.raises(UserError, match=r"no right to trace .*SYS_PTRACE") as caught,
        debugged(spec, tmp_path / "lab", fake_gdb(*run)),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_another_refusal_carries_gdbs_words(fake_gdb, spec, tmp_path):
    gdb = fake_gdb('TOKEN^error,msg="No executable file specified.\\nUse the file command."')
    with pytest.raises(UserError, match=r"No executable file") as caught, debugged(spec, tmp_path, gdb):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('*stopped,reason="exited",exit-code="01"', "ended with status 1"),
        ('*stopped,reason="signal-received",signal-name="SIGILL",thread-id="1"', "died of SIGILL"),
    ],
)
def test_a_server_that_ends_under_gdb_is_named(fake_gdb, spec, tmp_path, line, words):
    gdb = fake_gdb("TOKEN^running", line)
    with pytest.raises(UserError, match=words), debugged(spec, tmp_path, gdb):
        pass


def test_a_server_that_never_comes_up_is_named(fake_gdb, spec, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "START_DEADLINE", 0.2)
    with pytest.raises(UserError, match="was not ready"), debugged(spec, tmp_path, fake_gdb("TOKEN^running")):
        pass


def test_gdb_gets_no_poison_and_the_server_does(fake_gdb, spec, tmp_path):
    # GIVEN a gdb that only writes down what it is told
    told = tmp_path / "told"
    path = Path(fake_gdb("TOKEN^running", '*stopped,reason="exited",exit-code="01"'))
    head = (
        "import os\nOUT = open({told!r}, 'w')\nOUT.write(repr(os.environ.get('MALLOC_PERTURB_')) + '\\n')\n"
    )
    text = path.read_text().replace("import sys\n", "import sys\n" + head.format(told=str(told)))
    path.write_text(text.replace("    text = line", "    OUT.write(line); OUT.flush()\n    text = line"))
    poisoned = ServerSpec(spec.model, binary=spec.binary, poisoned=True, environment={"A": 'b "c" d'})
    with pytest.raises(UserError), debugged(poisoned, tmp_path, str(path)):
        pass
    lines = told.read_text().splitlines()
    assert lines[0] == "None"
    assert any("set environment MALLOC_PERTURB_ 165" in line for line in lines)
    assert any('set environment A b \\"c\\" d' in line for line in lines)
    assert any('-file-exec-file "/bin/true"' in line for line in lines)
    assert any("set args" in line and "1>&2" in line and "--sleep-idle-seconds" in line for line in lines)


def app():
    made = typer.Typer(rich_markup_mode=None)
    made.command()(directed)
    return made


def test_the_help_lists_every_point():
    text = CliRunner().invoke(app(), ["--help"], env={"COLUMNS": "300"}).output
    unwrapped = "".join(text.split())
    assert [point.name for point in POINTS if point.name not in unwrapped] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--defect", "D9"], "D1, D2, D3"),
        (["--point", "kitchen"], "after-barrier"),
        (["--point", "tokeniser", "--defect", "D3"], "belong together"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_before_anything_starts(arguments, words):
    result = CliRunner().invoke(app(), arguments)
    assert isinstance(result.exception, UserError)
    assert words in str(result.exception)
