"""The terminal, which only one process group at a time may read: lent to the command, and taken back.

A command of its own group could not read what is typed. So it gets the terminal at once, unless we are a part of a
pipeline, whose other parts (`| less`) may want it; then it gets it when it asks.
"""

import os
import signal
import stat
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

STDIN: Final = 0
STDOUT: Final = 1


class Terminal:
    def __init__(self) -> None:
        self._group = os.getpgrp()
        self._lent = False
        self._modes: list[Any] | None = None
        if self.is_ours():
            self._modes = termios.tcgetattr(STDIN)

    @property
    def exists(self) -> bool:
        return self._foreground() is not None

    def is_ours(self) -> bool:
        return self._foreground() == self._group

    def lend_at_once(self, group: int) -> None:
        if not _is_pipe(STDOUT):
            self.lend(group)

    def lend(self, group: int) -> bool:
        """False if it is not ours to give: there is none, or we are in the background."""
        if self._foreground() == group:
            return True
        if not self.is_ours():
            return False
        self._lent = self._set_foreground(group)
        return self._lent

    def take_back(self, *, repair: bool = False) -> None:
        """`repair` for a command that was killed and could not leave the terminal as it found it."""
        if not self._lent:
            return
        self._lent = not self._set_foreground(self._group)
        if repair and self._modes is not None:
            with suppress(termios.error), _undisturbed():
                termios.tcsetattr(STDIN, termios.TCSADRAIN, self._modes)

    def _foreground(self) -> int | None:
        try:
            return os.tcgetpgrp(STDIN)
        except OSError:  # no terminal, or not that of our session
            return None

    def _set_foreground(self, group: int) -> bool:
        with _undisturbed():
            try:
                os.tcsetpgrp(STDIN, group)
            except OSError:  # the group is gone already, or the terminal is
                return False
        return True


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Who touches the terminal from the background is stopped, unless it blocks this signal."""
    # Not ignored but blocked: the command would inherit that it is ignored.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False
