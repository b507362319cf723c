"""The three files that a program begins with, where one was closed or cannot be written to."""

import errno
import os
import sys
from typing import Final

from openintent.cli.report import FAILED, say, tell

# A disk that is full, a quota that is used up, a terminal that is gone.
UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def open_closed() -> None:
    """What was closed reads as empty and swallows what is written.

    Otherwise the next socket or pipe of ours would have its number, and would be taken for it.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # stderr, the last of the three
        os.set_inheritable(fd, True)
    os.close(fd)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, "w" if fd else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def failed_to_print(failure: OSError) -> int:
    """The exit code, if it is what we print that could not be written; else the failure is raised again."""
    if failure.errno not in UNWRITABLE or failure.filename is not None:
        raise failure
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # the other has an unwritten rest
    say(f"what there is to print cannot be written: {failure.strerror}")
    tell("  what was asked for may have been done all the same")
    return FAILED
