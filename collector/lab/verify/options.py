"""The options every method has, in the words of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

STDOUT = "-"
Version = Annotated[str | None, typer.Option("--version", help="xllamacpp version to test")]
ServerBin = Annotated[Path | None, typer.Option("--server-bin", help="a native llama-server to test")]
Build = Annotated[int | None, typer.Option("--build", help="test the native reference build of this number")]
Fix = Annotated[str | None, typer.Option("--fix", help="with --build: our patch of this name applied")]
Asan = Annotated[bool, typer.Option("--asan", help="with --build: the AddressSanitizer variant")]
ModelFile = Annotated[Path | None, typer.Option("--model", help="a GGUF file instead of the generated one")]
Trials = Annotated[int | None, typer.Option("--trials", min=1, help="trials per defect")]
Seed = Annotated[int, typer.Option("--seed", help="of everything drawn at random")]
Json = Annotated[str | None, typer.Option("--json", help="write the run as JSON; - is standard output")]
Junit = Annotated[
    str | None, typer.Option("--junit", help="write the findings as JUnit XML; - is standard output")
]
Reproducer = Annotated[
    Path | None,
    typer.Option("--reproducer", help="write a stand-alone script and its model into this folder"),
]
Output = Annotated[Path | None, typer.Option("--output", help="keep trials, logs and cores in this folder")]
UpdateCatalogue = Annotated[
    bool, typer.Option("--update-catalogue", help="remember the findings in the local catalogue overlay")
]


@dataclass(frozen=True)
class Outputs:
    """Where the run goes, besides the terminal. ``picture`` is of `routes` alone."""

    json: str | None = None
    junit: str | None = None
    reproducer: Path | None = None
    folder: Path | None = None
    update_catalogue: bool = False
    picture: str | None = None

    @property
    def files(self) -> dict[str, str]:
        """The documents that were asked for, by option; STDOUT among them at most once."""
        wanted = {"--json": self.json, "--junit": self.junit, "--picture": self.picture}
        return {option: name for option, name in wanted.items() if name is not None}

    @property
    def on_stdout(self) -> bool:
        """A document goes to standard output, and everything else that is said to standard error."""
        return STDOUT in self.files.values()
