"""The example pack outside the core: installed by pip into a folder of its own, it loads."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACK = ROOT / "examples" / "catalogue-pack"
NAME = "llama_blackbox_example_pack"
# what setuptools needs to make a wheel, until its version 70.1 has it inside
CAN_BUILD = importlib.util.find_spec("wheel") is not None or importlib.util.find_spec(
    "setuptools.command.bdist_wheel"
)


def wheel_of(folder: Path) -> Path:
    """The example as a wheel, made by hand: its entry point is the one its pyproject names."""
    declared = (PACK / "pyproject.toml").read_text()
    entry = declared.split('entry-points."llama_blackbox.catalogue"]\n')[1].splitlines()[0]
    info = f"{NAME}-1.0.dist-info"
    files = {f"{NAME}/{path.name}": path.read_text() for path in (PACK / NAME).glob("*.*")}
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: llama-blackbox-example-pack\nVersion: 1.0\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = f"[llama_blackbox.catalogue]\n{entry.replace(chr(34), '')}\n"
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    made = folder / f"{NAME}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made


def install(what: Path, target: Path) -> None:
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options, str(what)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def ask(target: Path, code: str, data: Path) -> str:
    paths = os.pathsep.join(map(str, (target, ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "XDG_DATA_HOME": str(data)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SHOW = """
from analyzers.catalogue.loader import catalogue, load_catalogue
known = catalogue()
page = known.explain("ex-fattn")
print(known.packs, known.notes, known.version, page.title, load_catalogue().defect("EX-FATTN"))
"""


def test_the_example_is_installed_and_seen(tmp_path: Path) -> None:
    # GIVEN the example, installed by pip into a folder on the path
    install(wheel_of(tmp_path), tmp_path / "target")
    # WHEN the catalogue is asked THEN the pack's entry has a page, and what ships knows nothing of it
    said = ask(tmp_path / "target", SHOW, tmp_path)
    assert "('example 1.0',) ()" in said
    assert "+example.1.0" in said
    assert "A CUDA flash-attention assert" in said
    assert said.rstrip().endswith("None")


@pytest.mark.skipif(not CAN_BUILD, reason="this setuptools cannot make wheels")
def test_its_own_build_carries_the_data_file(tmp_path: Path) -> None:
    shutil.copytree(PACK, tmp_path / "source")
    install(tmp_path / "source", tmp_path / "target")
    assert "A CUDA flash-attention assert" in ask(tmp_path / "target", SHOW, tmp_path)


def test_without_a_pack_nothing_is_looked_up(tmp_path: Path) -> None:
    code = "import sys; import analyzers.catalogue.loader as l; l.catalogue()"
    assert ask(tmp_path, f"{code}; print('importlib.metadata' in sys.modules)", tmp_path).strip() == "False"
