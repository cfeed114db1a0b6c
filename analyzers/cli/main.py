"""The dispatcher: finds the verb, runs it, and prints every problem once, as one line."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from analyzers.cli import registry
from analyzers.cli.output import prepare_streams, printing, silence
from analyzers.errors import EXIT_FAILED, EXIT_OK, EXIT_UNUSABLE, UserError
from analyzers.version import __version__

INTERRUPTED = 130
SAY_IT_THEMSELVES = ("verify",)  # with what it has kept of the run
EXIT_STATUSES = (
    (0, "a verdict (or the command did what it was asked)"),
    (1, "the command ran and failed"),
    (2, "the input or the command line cannot be used; one line says what, where, what to do"),
    (3, "triage ran and the evidence does not decide"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    prepare_streams()
    failed = registry.failure_status(args)
    try:
        return _run(args)
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_left(failed)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            return _reader_left(failed)  # typer turns a reader that went away into an exit of its own
        if failed != EXIT_FAILED and ended.code == EXIT_FAILED:
            return failed
        raise
    except Exception as problem:
        if debug and failed == EXIT_FAILED:
            raise
        if debug:
            _print_trace()
        return _report(problem, failed, args[0] if args else "")


def _print_trace() -> None:
    import traceback

    traceback.print_exc()


def _reader_left(failed: int) -> int:
    """Nobody reads our output any more: no failure, except where 0 would be taken for an answer."""
    silence(1)
    return EXIT_OK if failed == EXIT_FAILED else failed


def _run(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help", "help"):
        with printing():
            print(help_text())
        return EXIT_OK
    if args[0] == "--version":
        with printing():
            print(f"llama-blackbox {__version__}")
        return EXIT_OK
    verb = registry.find(args[0])
    with _ahead(verb.name, args[1:]):
        plain = verb.load_plain()
        _collect_garbage_again()
        status = plain(args[1:])
        if status is not None:
            return status
        app = verb.load()
        result = app(args=args[1:], prog_name=f"llama-blackbox {verb.name}", standalone_mode=False)
    if result == INTERRUPTED and verb.name not in SAY_IT_THEMSELVES:
        _say("interrupted")  # typer makes a silent status of Ctrl-C
    return result if isinstance(result, int) else EXIT_OK


def _ahead(verb: str, args: list[str]) -> AbstractContextManager[None]:
    """What may run beside the verb's imports (0.3 s): the unwinding of the core it will be asked about."""
    if verb != "triage":
        return nullcontext()
    from analyzers.stacks.ahead import started

    return started(args)


def _collect_garbage_again() -> None:
    """The launcher turned it off for the imports, which leave nothing to collect."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _report(problem: Exception, failed: int, verb: str) -> int:
    if isinstance(problem, UserError):
        _say(str(problem))
        return failed if problem.status == EXIT_FAILED else problem.status
    if _is_usage_error(problem):
        _say(f"{_usage_message(problem)}; see {_command(problem, verb)} --help")
        return EXIT_UNUSABLE
    if type(problem).__name__ == "Abort":
        return INTERRUPTED
    _say(f"internal error: {type(problem).__name__} (our fault; --debug shows the details)")
    return failed


def _is_usage_error(problem: Any) -> bool:
    # typer carries its own copy of click in some versions, so the class cannot be named here
    return hasattr(problem, "format_message") and hasattr(problem, "exit_code")


def _command(problem: Any, verb: str) -> str:
    """The command whose line was wrong, down to the verb's own method where the parser says: its help has the
    options."""
    said = getattr(getattr(problem, "ctx", None), "command_path", None)
    return str(said or f"llama-blackbox {verb if verb in registry.VERBS else ''}".rstrip())


def _usage_message(problem: Any) -> str:
    return str(problem.format_message()).rstrip(".")


def _say(line: str) -> None:
    printable = "".join(c if c.isprintable() else "?" for c in line)
    try:
        print(f"llama-blackbox: {printable}", file=sys.stderr, flush=True)
    except OSError:  # nobody can be told; the status still says it
        silence(2)


def help_text() -> str:
    """The list of verbs; a verb whose extra is missing is shown with the line that installs it."""
    lines = [
        "Usage: llama-blackbox VERB [OPTIONS] …",
        "",
        "Flight recorder and crash forensics for llama.cpp's llama-server.",
        "",
        "Verbs:",
    ]
    for verb in registry.VERBS.values():
        lines.append(f"  {verb.name:<10} {verb.help}")
        if verb.missing:
            lines.append(f"  {'':<10} not installed: {verb.install_line}")
    lines += [
        "",
        "Options: --version, --debug (show the traceback of an error), VERB --help",
        "",
        "Exit statuses:",
    ]
    lines += [f"  {number}  {meaning}" for number, meaning in EXIT_STATUSES]
    return "\n".join(lines)


def entry() -> None:
    """Console entry point."""
    sys.exit(main())
