"""Several processes of the same agents: those that die are started again, and all are told to stop together.

A replica has a process group of its own: Ctrl-C on a terminal would reach it beside our word, and a second signal
means "at once". If we are killed, its standard input ends, and it drains by itself.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from openintent.cli.report import FAILED, say
from openintent.cli.signals import Signals
from openintent.clock import boot_s

# One that ends so soon has hardly begun.
QUICK_S: Final = 5.0
QUICK_MAX: Final = 5
RESTART_S_FIRST: Final = 0.1
RESTART_S_MAX: Final = 30.0
# Beyond the time in which replicas may end what they do: to put back, release and deregister.
LEAVE_S: Final = 20.0
LOOK_S: Final = 1.0

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Deaths:
    """When one that died is started again. Pure."""

    quick: int = 0  # in a row

    def delay_s(self, lived_s: float) -> float | None:
        """None if it has died quickly too often: nobody is helped by starting it again."""
        self.quick = self.quick + 1 if lived_s < QUICK_S else 0
        if self.quick >= QUICK_MAX:
            return None
        return float(min(RESTART_S_FIRST * 2 ** max(self.quick - 1, 0), RESTART_S_MAX))


class Replica:
    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._deaths = Deaths()
        self.process: subprocess.Popen[bytes] | None = None
        self.start_at: float | None = 0.0  # None if it is not to be started (again)
        self._started_at = 0.0

    def start(self, *, now: float) -> None:
        command = [sys.executable, "-m", "openintent.cli", "agent", "run", *self._words, "--replica"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603  # ourselves
        self.start_at, self._started_at = None, now

    def look(self, *, now: float) -> bool:
        """Notice its end. False if it has died too often."""
        if self.process is None or self.process.poll() is None:
            return True
        code, pid = self.process.returncode, self.process.pid
        _close(self.process)
        self.process = None
        if code == 0:
            return True  # it was drained, and is not wanted any more
        delay_s = self._deaths.delay_s(now - self._started_at)
        if delay_s is None:
            say(f"replica {pid} ended {_how(code)}, {QUICK_MAX} times in a row at once; giving up")
            return False
        say(f"replica {pid} ended {_how(code)}; another begins in {delay_s:g} s")
        self.start_at = now + delay_s
        return True

    def send(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


def run(words: Sequence[str], count: int, *, drain_s: float) -> int:
    """Until they have left, because we or they were told to. The exit code."""
    replicas = [Replica(words) for _ in range(count)]
    with Signals([*ENDING, signal.SIGCHLD]) as signals:
        try:
            code = _keep(replicas, signals)
            _leave(replicas, signals, drain_s + LEAVE_S)
        finally:
            for replica in replicas:
                replica.send(signal.SIGKILL)
    return code


def _keep(replicas: Sequence[Replica], signals: Signals) -> int:
    """Until a signal tells to stop, all have left by themselves, or one cannot be kept."""
    while True:
        now = boot_s()
        if not all(replica.look(now=now) for replica in replicas):
            return FAILED
        for replica in replicas:
            if replica.start_at is not None and replica.start_at <= now:
                replica.start(now=now)
        if all(replica.process is None and replica.start_at is None for replica in replicas):
            return 0
        due = [replica.start_at - now for replica in replicas if replica.start_at is not None]
        if set(signals.wait(min([LOOK_S, *due]))) & set(ENDING):
            return 0


def _leave(replicas: Sequence[Replica], signals: Signals, patience_s: float) -> None:
    """Tell them to stop, hand on what comes after that, and wait for them."""
    for replica in replicas:
        replica.send(signal.SIGTERM)
    give_up_at = boot_s() + patience_s
    while any(replica.process is not None and replica.process.poll() is None for replica in replicas):
        if boot_s() >= give_up_at:
            say("some replicas did not leave in time and are killed; their leases lapse")
            return
        if set(signals.wait(LOOK_S)) & set(ENDING):
            for replica in replicas:
                replica.send(signal.SIGTERM)


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def end_with_standard_input() -> None:
    """In a replica: whoever started it holds the other end, and lets go of it only by dying."""

    def watch() -> None:
        while os.read(0, 4_096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="openintent-parent", daemon=True).start()
