"""Where the unit starts the server: the packages beside this folder and nothing else of the product."""

import os
import sys

CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}  # what programs that crashes are passed on to get to see


def _find_packages(folder: str) -> None:
    for name, places in (
        ("collector", []),
        ("collector.capture", []),
        ("collector.capture.crash", [os.path.join(folder, "crash")]),
        ("collector.capture.coresocket", [os.path.join(folder, "coresocket")]),
    ):
        module = type(sys)(name)
        module.__path__ = places
        sys.modules[name] = module


def main(words: list[str], folder: str) -> int:
    """Exit status: 0 told to stop, 2 the socket cannot be had."""
    from collector.capture.coresocket.server import serve

    if len(words) != 1:
        sys.stderr.write("usage: __main__.py SOCKET\n")
        return 2
    try:
        return serve(words[0], folder)
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"{words[0]}: {problem}; is another server running, is this root?\n")
        return 2


if __name__ == "__main__":
    here = os.path.abspath(__file__)
    if not set(os.environ) <= {*CLEAN, "LC_CTYPE"}:  # Python adds the second one by itself
        os.execve(sys.executable, [sys.executable, "-ISB", here, *sys.argv[1:]], CLEAN)  # noqa: S606
    _find_packages(os.path.dirname(os.path.dirname(here)))
    sys.exit(main(sys.argv[1:], os.path.dirname(os.path.dirname(here))))
