"""Signals as something to wait for, beside the rest."""

import os
import select
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

from openintent.cli.report import SIGNALLED

# What a person or a supervisor sends to a command and means it.
PASSED_ON: Sequence[signal.Signals] = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
ENDING: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGHUP)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


class _Handlers(ABC):
    """Other handlers for a while. What was ignored when we were started (`nohup`) stays so, also for the command.

    But not that of a child's end: while it is ignored, nobody hears how the child ended.
    """

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = [number for number in numbers if number is signal.SIGCHLD or not _is_ignored(number)]
        self._before: dict[signal.Signals, Any] = {}

    @abstractmethod
    def _handle(self, number: int, _frame: FrameType | None) -> None: ...

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in self._numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Leaving(_Handlers):
    """Being told to end ends us in order: the place in the queue is given up, the lease is given back."""

    def __init__(self) -> None:
        super().__init__(ENDING)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        raise SystemExit(SIGNALLED + number)


class Signals(_Handlers):
    """Collects signals. `wait` ends when one came, or when another thread calls `wake`."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        super().__init__(numbers)
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """The number is in the pipe already."""

    def __enter__(self) -> Self:
        self._fd_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, exc, trace)
        signal.set_wakeup_fd(self._fd_before)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # then there is enough in it to wake anybody
            os.write(self._writer, b"\0")

    def wait(self, seconds: float) -> list[int]:
        """The signals that came, none if the time is over first."""
        if not select.select([self._reader], [], [], max(0.0, seconds))[0]:
            return []
        return [number for number in os.read(self._reader, 4_096) if number]
