"""What a connection may cost, and the look at all of them, once a second, that ends those which cost too much.

The hot path reads no clock and sets no timer. Instead the sweep notes when it first saw a connection in its present
phase, so a deadline may come a second or two late, but never early.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import Final

import msgspec

from openintent.clock import boot_s

SWEEP_S: Final = 1.0
# A process that was frozen wakes up to a clock that ran on without it, and to bytes that it has not read yet. One sweep
# ages nobody by more than this, so that clients are not sent away for our own sleep.
AGE_S_MAX: Final = 2 * SWEEP_S


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one connection, and of all together. The seconds count from the first byte or the last answer."""

    header_bytes_max: int = 32 * 1024  # keys, tokens and ids are short; proxies add some
    headers_max: int = 100
    target_bytes_max: int = 8 * 1024
    body_bytes_max: int = 1_048_576 + 65_536  # the largest state, and room for what is around it
    connections_max: int = 10_000
    connections_per_address_max: int = 4_096
    connections_reserved: int = 256  # beyond those, for one vital request each
    receive_s_max: float = 10.0  # for the whole of a request, and for the first byte on a new connection
    idle_s_max: float = 75.0  # longer than the 60 s for which most proxies keep an idle connection: they close first
    write_s_max: float = 15.0  # how long a client may leave its answers unread
    linger_s_max: float = 2.0  # how long we listen on after a refusal, so that it is not lost to a reset


class Phase(Enum):
    """What a connection is doing, as far as deadlines care."""

    CLOSING = auto()  # closed by us; the last bytes have not left yet
    BLOCKED = auto()  # the client does not read
    LINGERING = auto()  # refused; whatever still arrives is thrown away
    RECEIVING = auto()  # a request has begun, or the first one is due
    BUSY = auto()  # it is our turn: no deadline
    IDLE = auto()


class Swept(ABC):
    """A connection, for the sweep."""

    stirred: bool  # whether a message, or a blockage, has begun since the last look
    seen: tuple[Phase | None, float] = (None, 0.0)  # the phase at the last look, and since when

    @abstractmethod
    def phase(self) -> Phase: ...

    @abstractmethod
    def expire(self, phase: Phase) -> None:
        """The deadline of this phase has passed."""


class Sweep:
    """Ends connections that outstay their deadlines. What is in `connections` but not `Swept` is left alone."""

    def __init__(self, connections: Collection[object], bounds: Bounds, clock_s: Callable[[], float] = boot_s) -> None:
        self._connections = connections
        self._limits_s = {
            Phase.CLOSING: bounds.write_s_max,
            Phase.BLOCKED: bounds.write_s_max,
            Phase.LINGERING: bounds.linger_s_max,
            Phase.RECEIVING: bounds.receive_s_max,
            Phase.BUSY: float("inf"),
            Phase.IDLE: bounds.idle_s_max,
        }
        self._clock_s = clock_s
        self._last_s = clock_s()
        self._now_s = 0.0  # our own time: it never leaps
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._last_s = self._clock_s()
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._turn)

    def _turn(self) -> None:
        self._arm()  # first, so that a failure below costs one sweep and not all
        self.sweep()

    def sweep(self) -> None:
        """Look at every connection once."""
        clock_s = self._clock_s()
        self._now_s += min(clock_s - self._last_s, AGE_S_MAX)
        self._last_s = clock_s
        for connection in tuple(self._connections):
            if isinstance(connection, Swept):
                self._look_at(connection)

    def _look_at(self, connection: Swept) -> None:
        phase, stirred = connection.phase(), connection.stirred
        connection.stirred = False
        seen_phase, since_s = connection.seen
        if stirred or phase is not seen_phase:
            connection.seen = (phase, self._now_s)
        elif self._now_s - since_s >= self._limits_s[phase]:
            connection.expire(phase)
