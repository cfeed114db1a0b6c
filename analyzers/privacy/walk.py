"""Applies redaction to every string of a contract's model, except ids and closed vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from analyzers.contracts import report as r
from analyzers.contracts.evidence import Evidence, Incarnation
from analyzers.privacy.arguments import clean_args, clean_env
from analyzers.privacy.names import PRIVATE_JSON_KEYS, SECRET_JSON_KEYS
from analyzers.privacy.patterns import MARKER

M = TypeVar("M", bound=BaseModel)
Clean = Callable[[str], str]
# Fields that are ids, hashes or closed vocabularies: readers compare them, so they are never touched.
FIXED: dict[type[BaseModel], frozenset[str]] = {
    r.Report: frozenset({"schema_", "redaction", "tool"}),
    r.InputFile: frozenset({"kind", "sha256"}),
    r.Verdict: frozenset({"class_", "cause", "defect", "phase", "confidence"}),
    r.Signature: frozenset({"bug_key", "site_key"}),
    r.Process: frozenset({"boot_id", "build_id", "signal", "fault_address", "role"}),
    r.Thread: frozenset({"role", "rung"}),
    r.FrameView: frozenset({"offset"}),
    r.TimelineItem: frozenset({"clock", "event", "trust"}),
    r.Incident: frozenset({"key", "class_"}),
    Incarnation: frozenset({"boot_id"}),
    Evidence: frozenset({"id", "kind", "trust"}),
}
_ARGS = frozenset({"args", "argv", "cmdline", "command_line"})
_ENV = frozenset({"env", "environ", "environment"})
_HIDDEN = frozenset(key.lower() for key in PRIVATE_JSON_KEYS + SECRET_JSON_KEYS)
MAX_DEPTH = 64  # levels of a hostile bundle's data that are followed; what lies deeper is taken out


def clean_model(
    model: M, clean: Clean, fixed: Mapping[type[BaseModel], frozenset[str]] = FIXED, depth: int = 0
) -> M:
    """A copy of ``model`` whose strings, keys of mappings included, went through ``clean``."""
    keep = fixed.get(type(model), frozenset())
    values = {**model.__dict__, **(model.__pydantic_extra__ or {})}
    changed = {
        name: _named(name, value, clean, fixed, depth + 1)
        for name, value in values.items()
        if name not in keep
    }
    return model.model_copy(update=changed)


def _named(
    name: str, value: Any, clean: Clean, fixed: Mapping[type[BaseModel], frozenset[str]], depth: int
) -> Any:
    """``value`` cleaned as the name it stands under asks for."""
    if name in _ARGS and _is_strings(value):
        return type(value)(clean_args(value, clean))
    if name in _ENV and isinstance(value, Mapping) and _is_strings(list(value.values())):
        return clean_env(value, clean)
    return _any(value, clean, fixed, depth)


def _any(value: Any, clean: Clean, fixed: Mapping[type[BaseModel], frozenset[str]], depth: int) -> Any:
    if isinstance(value, str):
        return clean(value) if type(value) is str else value
    if depth > MAX_DEPTH:
        return MARKER if isinstance(value, (Mapping, list, tuple, BaseModel)) else value
    if isinstance(value, BaseModel):
        return clean_model(value, clean, fixed, depth)
    if isinstance(value, Mapping):
        return {
            clean(str(key)): _entry(str(key), item, clean, fixed, depth + 1) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(_any(item, clean, fixed, depth + 1) for item in value)
    return value


def _entry(
    key: str, value: Any, clean: Clean, fixed: Mapping[type[BaseModel], frozenset[str]], depth: int
) -> Any:
    hidden = key.lower() in _HIDDEN and isinstance(value, (str, Mapping, list, tuple)) and value
    return MARKER if hidden else _named(key, value, clean, fixed, depth)


def _is_strings(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(type(item) is str for item in value)
    )
