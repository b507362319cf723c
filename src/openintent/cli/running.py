"""Runs a command in a process group of its own, and ends all of the group before its lease can be another's.

The command is told to stop with SIGTERM when the lease is lost, which is some time before trust in it ends, and what
is left of the group then is killed before that moment. Also when this process is killed or stopped: see `guardian`.

Not promised: that a process which has left the group (`setsid`), or runs as another user, is reached. After a
revocation the scope is free at once, so the command may run beside the next holder until it has stopped. What a
command that ended by itself has left in the background is left alone: it runs on without the lease.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from openintent.cli.groups import is_alive, send
from openintent.cli.guardian import Guardian
from openintent.cli.report import SIGNALLED, say
from openintent.cli.signals import Signals
from openintent.cli.terminal import Terminal
from openintent.clock import boot_s
from openintent.embedded import stepped_aside
from openintent.trust import SOFT_STOP_S_MAX, SOFT_STOP_SHARE

# What killing takes, until the last process has seen it.
KILL_S_MAX: Final = 0.05
KILL_SHARE: Final = 0.25
# The clock of `select` stands still while the machine sleeps, and the boot clock does not.
LOOK_S_MAX: Final = 0.5
LOOK_S_MIN: Final = 0.002
# While the group is ending; of its members only the command itself makes itself heard.
POLL_S: Final = 0.02
# A process in the middle of a disk access dies when that is over. Nobody should wait for ever for it.
DYING_S_MAX: Final = 2.0


class Trusted(Protocol):
    """The holder's own view of its lease."""

    @property
    def over(self) -> bool: ...

    @property
    def trusted_until(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Times:
    """How long the command has between being told to stop and being killed, and when both must be."""

    grace_s: float
    kill_s: float

    @classmethod
    def of(cls, ttl_s: float, grace_s: float | None) -> "Times":
        window_s = min(SOFT_STOP_S_MAX, ttl_s * SOFT_STOP_SHARE)
        kill_s = min(KILL_S_MAX, window_s * KILL_SHARE)
        return cls(window_s - kill_s if grace_s is None else grace_s, kill_s)

    def stop_at(self, until: float) -> float:
        return until - self.kill_s - self.grace_s

    def kill_at(self, until: float, *, stopped_at: float) -> float:
        return min(stopped_at + self.grace_s, until - self.kill_s)


@dataclass(frozen=True, slots=True)
class Outcome:
    exit_code: int
    lost: bool


class Command:
    """One command under one lease. `run` it once."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        *,
        trust: Trusted,
        times: Times,
        guardian: Guardian,
        signals: Signals,
    ) -> None:
        self._words = words
        self._env = env
        self._trust = trust
        self._times = times
        self._guardian = guardian
        self._terminal = Terminal()
        self._signals = signals
        self._group = 0
        self._exit_code: int | None = None
        self._passed_on = False
        self._kill_at: float | None = None  # from when it was told to stop
        self._killed_at: float | None = None

    def run(self) -> Outcome:
        """Until it has ended. `OSError` if it could not be started."""
        with self._signals:
            self._start()
            try:
                while not self._is_done():
                    for number in self._signals.wait(self._pause_s()):
                        self._hear(number)
                    self._reap()
                    self._mind_lease()
            finally:
                self._terminal.take_back(repair=(self._exit_code or 0) > SIGNALLED)
        return self._outcome()

    def _start(self) -> None:
        # Its own group, so that it can be ended with all that it starts.
        process = subprocess.Popen(  # noqa: S603  # it is asked for
            self._words,
            env=self._env,
            process_group=0,
            preexec_fn=partial(self._introduce, self._trust.trusted_until),  # noqa: PLW1509  # see there
        )
        self._group = process.pid
        process.returncode = 0  # `_reap` waits for it
        self._terminal.lend_at_once(self._group)

    def _introduce(self, until: float) -> None:
        """In the new process, before it is the command: were we stopped right after it began, nobody else would tell.

        It takes no lock, as another thread may have that which is not here.
        """
        self._group = os.getpid()
        self._tell_guardian(until)

    def _is_done(self) -> bool:
        if self._kill_at is None:
            return self._exit_code is not None
        if self._killed_at is not None and boot_s() > self._killed_at + DYING_S_MAX:
            say("not all of the command's processes could be ended")
            return True
        return not is_alive(self._group)

    def _pause_s(self) -> float:
        if self._kill_at is not None:
            return POLL_S
        left_s = self._times.stop_at(self._trust.trusted_until) - boot_s()
        # Half of it, so that the guardian has heard of a renewal long before it would act on the last one.
        return min(LOOK_S_MAX, max(left_s / 2, LOOK_S_MIN))

    def _outcome(self) -> Outcome:
        lost = self._kill_at is not None
        if not lost and not self._passed_on and self._left_some():
            say("the command has left processes in the background, which run on without the lease")
        code = SIGNALLED + signal.SIGKILL if self._exit_code is None else self._exit_code
        return Outcome(code, lost)

    def _left_some(self) -> bool:
        """What is left a moment later, that is: the last part of a pipeline may just be about to end."""
        self._signals.wait(POLL_S if is_alive(self._group) else 0.0)
        return is_alive(self._group)

    # The lease

    def _mind_lease(self) -> None:
        now = boot_s()
        if self._kill_at is None and self._exit_code is None:
            until = self._trust.trusted_until
            self._tell_guardian(until)
            if self._trust.over or now >= self._times.stop_at(until):
                self._kill_at = self._times.kill_at(until, stopped_at=now)
                self._tell_to_stop(now)
        if self._kill_at is not None and now >= self._kill_at:
            self._killed_at = self._killed_at or now
            self._send(signal.SIGKILL)

    def _tell_guardian(self, until: float) -> None:
        self._guardian.watch(self._group, until=until - self._times.kill_s, grace_s=self._times.grace_s)

    def _tell_to_stop(self, now: float) -> None:
        assert self._kill_at is not None
        # If there is no time left, nothing of it may run again, not even to clean up.
        if now < self._kill_at:
            self._send(signal.SIGTERM)
            self._send(signal.SIGCONT)  # what is stopped cannot hear

    def _send(self, number: int) -> None:
        try:
            send(self._group, number)
        except PermissionError:
            say("the command runs as another user and cannot be signalled")

    # The process

    def _hear(self, number: int) -> None:
        if number != signal.SIGCHLD:
            self._passed_on = True
            self._send(number)

    def _reap(self) -> None:
        """All of the group that is ours to wait for: as process 1 of a container, that is every orphan."""
        while True:
            try:
                pid, status = os.waitpid(-self._group, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._group:
                self._note(status)

    def _note(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            self._stopped(os.WSTOPSIG(status))
            return
        code = os.waitstatus_to_exitcode(status)
        self._exit_code = code if code >= 0 else SIGNALLED - code

    def _stopped(self, number: int) -> None:
        """It was stopped: because it wants the terminal, or because somebody typed Ctrl-Z."""
        wants = number in (signal.SIGTTIN, signal.SIGTTOU)
        # Without a terminal somebody stopped it on purpose, and will let it go on; the lease is kept meanwhile.
        if not self._terminal.exists or self._kill_at is not None:
            return
        if not (wants and self._terminal.lend(self._group)):
            self._stop_too()
        if not self._trust.over:
            self._send(signal.SIGCONT)

    def _stop_too(self) -> None:
        """Give the shell its prompt back. We renew nothing while we are stopped."""
        left_s = self._trust.trusted_until - boot_s()
        say(f"stopped; unless it goes on within {max(0.0, left_s):.0f} s, the lease is lost and the command killed")
        self._terminal.take_back()
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # To the whole job, as Ctrl-Z would have sent it. Where there is no shell to go on from, it does nothing.
        # If it is us who serve a file to others, they must not stand still with us.
        with stepped_aside():
            os.killpg(os.getpgrp(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        self._terminal.lend_at_once(self._group)
