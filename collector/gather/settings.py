"""The settings a server ran with: command line, LLAMA_ARG_* variables, preset file; keys taken out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import SettingsFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.privacy.redact import Redactor
from collector.gather.foreign import Owner, read_named
from collector.gather.haul import Haul
from collector.gather.tools import quoted
from collector.sources.process import option, sleep_words

PRESETS = ("--models-preset",)
LOG_FILES = ("--log-file",)
MAX_PRESET = 1 << 18  # bytes; presets are a few sections of ini text
_TRUE = ("1", "true", "on", "enabled", "yes")


def told(args: Sequence[str], env: Mapping[str, str], names: tuple[str, ...], variable: str) -> str | None:
    """A setting's value: the command line's, else the variable's."""
    return option(list(args), names) or env.get(variable) or None


def settings_evidence(
    args: Sequence[str], env: Mapping[str, str], redactor: Redactor, source: str, who: Incarnation
) -> Evidence:
    """SettingsFact evidence of a dead process, by the command line that its supervisor or its core names."""
    idle = told(args, env, ("--sleep-idle-seconds",), "LLAMA_ARG_SLEEP_IDLE_SECONDS")
    model = told(args, env, ("-m", "--model"), "LLAMA_ARG_MODEL")
    limit = int(idle) if idle and idle.lstrip("-").isdigit() and len(idle) < 12 else None
    fact = SettingsFact(
        sleep_idle_seconds=limit,
        args=tuple(redactor.args(args)),
        model=PurePosixPath(model).name if model else None,
        metrics="--metrics" in args or env.get("LLAMA_ARG_ENDPOINT_METRICS", "").lower() in _TRUE,
        memory_poisoned="MALLOC_PERTURB_" in env,
    )
    return to_evidence(
        fact,
        id=f"settings-{who.pid}",
        source=source,
        text=f"started with {len(args)} arguments, {sleep_words(limit)}",
        trust=Trust.SUPERVISOR,
        incarnation=who,
    )


def add_preset(
    haul: Haul,
    args: Sequence[str],
    env: Mapping[str, str],
    who: Owner,
    root: Path = Path("/"),
    cwd: Path | None = None,
) -> None:
    """The router's preset file, as text, where ``who`` may read it; ``root`` and ``cwd`` are the server's."""
    path = told(args, env, PRESETS, "LLAMA_ARG_MODELS_PRESET")
    if path is None:
        return
    data = read_named(path, MAX_PRESET, who, root, cwd)
    if data is None:
        why = "it is gone, or the server's own user may not read it"
        haul.gap("the preset file", why, f"give {quoted(path)} as text, where it really is the server's")
        return
    haul.context("preset.ini", "".join(_without_keys(data.decode("utf-8", "replace"), haul)))


def _without_keys(text: str, haul: Haul) -> Iterator[str]:
    """Each ``name = value`` judged like the option of that name; keys found are remembered."""
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if not equals or line.lstrip().startswith(("#", ";", "[")):
            yield line + "\n"
            continue
        words = [f"--{name.strip().lstrip('-')}", value.strip()]
        haul.knows(words)
        yield f"{name}={' '.join(haul.redactor.args(words)[1:])}\n"


def missing_settings(pid: int | None) -> Gap:
    """Nobody says how the server was started."""
    return Gap(
        what="the server's settings",
        why="neither its unit nor its core names its command line",
        command="systemctl cat UNIT, or the script that starts it",
    )
