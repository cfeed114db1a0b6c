"""A report that can be written as UTF-8: file names inside a core may be any bytes."""

from __future__ import annotations

from typing import Any

from analyzers.contracts.report import Report


def sound(report: Report) -> Report:
    """``report`` itself, or a copy in which what UTF-8 cannot hold is a question mark."""
    try:
        report.to_json()
    except ValueError:
        return Report.model_validate(_sound(report.model_dump(by_alias=True)))
    return report


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sound(item) for item in value]
    return value
