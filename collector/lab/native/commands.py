"""`llama-blackbox reference build | list | clean | diff`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from analyzers.errors import EXIT_OK, UserError
from collector.lab.native import inventory
from collector.lab.native.build import find_build, plan_of, prepare_build
from collector.lab.native.compile import DISK_NEEDED, duration
from collector.lab.native.patch import patched, unified_diff
from collector.lab.native.recipe import Recipe
from collector.lab.native.sdist import package_file
from collector.lab.native.steps import terminated_like_interrupted
from collector.lab.native.store import NativeBuild
from collector.lab.native.tree import Tree, locked_tree
from collector.lab.reference.cache import cache_path
from collector.lab.reference.environments import quiet

# Measured on two cores with an empty compiler cache, 14 to 16 minutes; see docs/reference-builds.md.
COLD_CPU_MINUTES = 16
# Measured: 25 and a half with a sixth of the files from the compiler cache.
ASAN_CPU_MINUTES = 30
COLD_DOWNLOAD = "37 MB"

Build = Annotated[int | None, typer.Option("--build", help="llama.cpp build number, for example 11368")]
Fix = Annotated[str | None, typer.Option("--fix", help="apply our patch of this name; see reference list")]
Asan = Annotated[bool, typer.Option("--asan", help="the AddressSanitizer variant (server and llama)")]
Source = Annotated[
    Path | None, typer.Option("--source", help="a llama.cpp tree of your own instead; it is not changed")
]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="compilers at once; by cores and memory")]
Offline = Annotated[bool, typer.Option("--offline", help="compile, but fetch nothing")]


def recipe_of(build: int | None, fix: str | None, asan: bool, source: Path | None) -> Recipe:
    """Raises UserError when neither a number nor a tree is named."""
    if build is None and source is None:
        raise UserError("no build is named", where="reference", remedy="give --build N or --source DIR")
    return Recipe(build or 0, fix, asan, source)


def build(
    number: Build = None,
    fix: Fix = None,
    asan: Asan = False,
    source: Source = None,
    jobs: Jobs = None,
    offline: Offline = False,
    path: Annotated[bool, typer.Option("--path", help="standard output has the binary's path alone")] = False,
) -> int:
    """Compile a llama-server from source, or find it in the cache, and say what it cost."""
    recipe = recipe_of(number, fix, asan, source)
    console = Console(highlight=False, stderr=path)

    def say(line: str) -> None:
        console.print(Text(line), soft_wrap=True)

    made = find_build(recipe)
    if made is None:
        say(f"not in the cache: {cost_of(recipe, offline)}")
        with terminated_like_interrupted():
            made = prepare_build(recipe, progress=say, offline=offline, jobs=jobs)
    for line in cost_lines(made):
        say(line)
    if path:
        sys.stdout.write(f"{made.binary}\n")
    return EXIT_OK


def cost_of(recipe: Recipe, offline: bool) -> str:
    """What this build still costs here: a source that is at hand is not fetched, a tree that was built once
    takes no more disk and compiles what differs."""
    plan = plan_of(recipe)
    tree = Tree(cache_path("native", "trees") / plan.tree_name)
    fetched = recipe.source is not None or tree.source.is_dir() or package_file(recipe.build).is_file()
    download = [] if fetched or offline else [f"a download of {COLD_DOWNLOAD}"]
    if (tree.build / "CMakeCache.txt").is_file():
        return " and ".join([*download, "some minutes of CPU at most: a tree of it is at hand"])
    minutes = ASAN_CPU_MINUTES if recipe.asan else COLD_CPU_MINUTES
    cpu = f"up to {minutes} minutes of CPU (less with a warm compiler cache)"
    return f"{', '.join([*download, cpu])} and {size(DISK_NEEDED)} of disk"


def cost_lines(made: NativeBuild) -> list[str]:
    """What a build is and what it cost when it was made."""
    record = made.record
    hits, misses = record["ccache"]["hits"], record["ccache"]["misses"]
    cached = (
        "no compiler cache" if hits is None else f"{hits} of {hits + misses} files from the compiler cache"
    )
    return [
        f"{made.name}: built on {record['date']} in {duration(record['seconds'])} "
        f"({duration(record['cpu_seconds'])} of CPU, {cached})",
        f"  {record['compiler']}; binary {size(record['bytes']['binary'])}, "
        f"work tree {size(record['bytes']['tree'])}",
        f"  {made.binary}",
    ]


def size(count: int) -> str:
    """Bytes as a person reads them."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def list_() -> int:
    """What the cache holds (native builds, work trees, sources, wheels), and the fixes there are."""
    console = Console(highlight=False)
    for heading, rows in inventory.sections():
        console.print(Text(heading, style="bold"))
        for row in rows or ["none"]:
            console.print(Text(f"  {row}"), soft_wrap=True)
    return EXIT_OK


def clean(
    trees: Annotated[bool, typer.Option("--trees", help="work trees (the default)")] = False,
    builds: Annotated[bool, typer.Option("--builds", help="finished native builds")] = False,
    sources: Annotated[bool, typer.Option("--sources", help="source packages and their downloader")] = False,
    ccache: Annotated[bool, typer.Option("--ccache", help="the compiler cache")] = False,
    servers: Annotated[bool, typer.Option("--servers", help="environments of the wheels")] = False,
    everything: Annotated[bool, typer.Option("--all", help="all of these")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would go, and remove nothing")] = False,
) -> int:
    """Remove parts of the cache and say what each freed. What is in use is left alone."""
    chosen = {"trees": trees, "builds": builds, "sources": sources, "ccache": ccache, "servers": servers}
    wanted = [name for name, on in chosen.items() if on or everything] or ["trees"]
    console = Console(highlight=False)
    freed, word = 0, "would be freed" if dry_run else "freed"
    for kind in wanted:
        for entry in inventory.entries(kind):
            amount = inventory.weigh(entry) if dry_run else inventory.remove(entry)
            freed += amount or 0
            told = "in use, left alone" if amount is None else f"{size(amount)} {word}"
            console.print(Text(f"{kind}: {entry.name}: {told}"), soft_wrap=True)
    console.print(Text(f"{size(freed)} {word} in all"))
    return EXIT_OK


def diff(
    fix: Annotated[str, typer.Option("--fix", help="name of the fix")],
    number: Build = None,
    source: Source = None,
    offline: Annotated[bool, typer.Option("--offline", help="fetch nothing")] = False,
) -> int:
    """Print what a fix changes in a build, as a unified diff."""
    plan = plan_of(recipe_of(number, fix, False, source))
    assert plan.fix is not None  # noqa: S101 - a recipe with a fix
    with locked_tree(plan.tree_name, quiet) as tree:
        plan.origin.place(tree, quiet, offline)
        read = plan.origin.read(tree)
        sys.stdout.write(unified_diff(read, patched(plan.fix, plan.origin.label, read)))
    return EXIT_OK
