"""A process that stops the command when `hold` cannot: because it was killed, is stopped, or hangs.

It knows the command's process group and until when the lease may be relied on, which `hold` tells it anew after each
renewal. When that moment comes it kills the group; when `hold` is gone it ends the group in order, within that time.

Not promised: that it reaches a process which has left the group (`setsid`), or which runs as another user.
"""

import os
import select
import signal
import struct
from contextlib import suppress
from typing import Final, NoReturn

from openintent.cli.groups import is_alive, send
from openintent.clock import boot_s

_ORDER: Final = struct.Struct("=qdd")
# `select` does not count the time in which the machine sleeps, and the boot clock does.
LOOK_S_MAX: Final = 0.5
POLL_S: Final = 0.02
# Nobody has more open, and where the limit is a billion, closing them one by one would take minutes.
FILES_MAX: Final = 65_536


class Guardian:
    """Must be made while the process has one thread: it is a fork."""

    def __init__(self) -> None:
        reader, self._fd = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _stand_by(reader)
        os.close(reader)
        self._told: tuple[int, float, float] | None = None

    def watch(self, group: int, *, until: float, grace_s: float) -> None:
        """Nothing of the group may live at `until`, whatever happens to us."""
        order = (group, until, grace_s)
        if order != self._told:
            self._told = order
            # It is gone only if somebody killed it; then we are the only one to watch.
            with suppress(BrokenPipeError):
                os.write(self._fd, _ORDER.pack(*order))

    def dismiss(self) -> None:
        """From here on it does nothing."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)


def _stand_by(reader: int) -> NoReturn:
    try:
        # A session of its own: what is sent to our group or typed at the terminal is not for it.
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _guard(_let_go_of_files(reader))
    finally:
        os._exit(0)


def _let_go_of_files(reader: int) -> int:
    """Whoever reads our output waits for its end, and we are no part of it. What is kept is the reader."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    kept = 3
    os.dup2(reader, kept)
    os.closerange(kept + 1, min(os.sysconf("SC_OPEN_MAX"), FILES_MAX))
    return kept


def _guard(reader: int) -> None:
    group, until, grace_s = 0, float("inf"), 0.0
    while boot_s() < until:
        if not select.select([reader], [], [], min(LOOK_S_MAX, until - boot_s()))[0]:
            continue
        told = os.read(reader, _ORDER.size * 64)
        if not told:
            until = min(until, boot_s() + grace_s)
            break
        group, until, grace_s = _ORDER.unpack(told[-_ORDER.size :])
    if group:
        _end(group, until)


def _end(group: int, until: float) -> None:
    if boot_s() < until:
        send(group, signal.SIGTERM)
        send(group, signal.SIGCONT)  # what is stopped cannot hear
    while boot_s() < until and is_alive(group):
        select.select([], [], [], POLL_S)
    send(group, signal.SIGKILL)
