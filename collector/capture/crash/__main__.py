"""Where the kernel enters: ours is kept, everything else goes to the handler that was there before."""

import os
import sys


def _standard_descriptors() -> None:
    """The kernel opens the standard input only. What is opened next must not become output or error."""
    for number in (1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(
                "/dev/null", os.O_RDWR
            )  # the lowest free number; closed again when another program starts


def _find_package(folder: str) -> None:
    """Let the modules beside this file be imported by their full names, and nothing else of the product."""
    for name, places in (
        ("collector", []),
        ("collector.capture", []),
        ("collector.capture.crash", [folder]),
    ):
        module = type(sys)(name)
        module.__path__ = places
        sys.modules[name] = module


def main(words: list[str]) -> int:
    """Exit status; does not return when another handler takes over."""
    from collector.capture.crash import handling

    return handling.handle(words, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


if __name__ == "__main__":
    _standard_descriptors()
    _find_package(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main(sys.argv[1:]))
