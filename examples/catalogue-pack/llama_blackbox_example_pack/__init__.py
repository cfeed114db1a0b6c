"""A catalogue pack: its entry point gives the path of a TOML file in the form of llama-blackbox's own."""

from __future__ import annotations

from pathlib import Path


def catalogue() -> Path:
    return Path(__file__).with_name("catalogue.toml")
