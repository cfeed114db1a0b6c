"""The one error type a user sees: what, where, what to do. Printed once, by the dispatcher."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_UNUSABLE = 2
EXIT_UNDETERMINED = 3


class UserError(Exception):
    """A problem the user can act on. ``str()`` is the one line that is printed.

    ``what`` is wrong, ``where`` (file, unit, address), ``remedy`` says what to do.
    """

    status = EXIT_UNUSABLE

    def __init__(self, what: str, *, where: str, remedy: str) -> None:
        super().__init__(f"{where}: {what}; {remedy}")
        self.what = what
        self.where = where
        self.remedy = remedy
