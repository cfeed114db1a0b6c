"""The errors of bundles, each with what to do about it."""

from __future__ import annotations

import errno
import os

from analyzers.errors import UserError
from analyzers.privacy.visible import visible

_REMEDIES = {
    errno.ENOSPC: "free some space, or choose another place for it",
    errno.EDQUOT: "free some space, or choose another place for it",
    errno.EFBIG: "raise the limit for file sizes, or choose another place for it",
    errno.EACCES: "check its rights, or run as a user who may",
    errno.EPERM: "check its rights, or run as a user who may",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOENT: "check the path",
    errno.EEXIST: "choose another name, or allow it to be overwritten",
}


def os_error(error: OSError, where: str) -> UserError:
    """One line for a failed system call on ``where``."""
    what = os.strerror(error.errno).lower() if error.errno else str(error)
    return UserError(visible(what), where=visible(where), remedy=_REMEDIES.get(error.errno or 0, "try again"))


def refused(what: str, where: str) -> UserError:
    """A bundle that must not be unpacked."""
    remedy = "do not trust it; ask whoever made it for a bundle written by llama-blackbox"
    return UserError(visible(what), where=visible(where), remedy=remedy)


def corrupt(what: str, where: str) -> UserError:
    """A bundle that cannot be read as one."""
    return UserError(
        visible(what), where=visible(where), remedy="copy or download it again, or name its files one by one"
    )
