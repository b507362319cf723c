"""The clocks we trust, and the one we only show.

Decisions use the boot clock: it never steps, and it counts the time the machine slept. The wall clock is for the
dates that people read; no decision may depend on it.
"""

import sys
import time
from typing import Final

# Linux stops CLOCK_MONOTONIC during suspend but not CLOCK_BOOTTIME; on macOS it is CLOCK_MONOTONIC that goes on.
_BOOT_CLOCK: Final[int] = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC

MS_PER_SECOND: Final = 1_000
LEAP_MS_MAX: Final = 1_000


def boot_s() -> float:
    """Seconds on a clock that never steps; only differences mean anything, and only on this machine since its boot."""
    return time.clock_gettime(_BOOT_CLOCK)


def boot_ms() -> int:
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970, for dates that people read."""
    return time.time_ns() // 1_000_000


class LedgerClock:
    """The ledger's own time: it goes on from where the durable head left it, and never leaps.

    A grantor that was frozen wakes up to a boot clock that ran on without it. If ledger time followed, every lease
    would be dead before its holder had a chance to renew; so one reading moves it by `LEAP_MS_MAX` at the most.
    """

    __slots__ = ("boot_ms", "now_ms")

    def __init__(self, *, start_ms: int, boot_now_ms: int) -> None:
        self.now_ms = start_ms
        self.boot_ms = boot_now_ms  # when it was read last

    def stand(self, now_ms: int) -> None:
        """It was not as late as the last reading said, and what passed since then is not made up for.

        A lease that was granted meanwhile ends its ttl after that instant; a clock that caught up would end it before.
        """
        self.now_ms = now_ms

    def read(self, boot_now_ms: int) -> int:
        passed_ms = boot_now_ms - self.boot_ms
        if passed_ms > 0:
            self.now_ms += min(passed_ms, LEAP_MS_MAX)
            self.boot_ms = boot_now_ms
        return self.now_ms
