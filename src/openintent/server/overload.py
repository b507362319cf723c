"""Notices that the server is behind, keeps its turns short, and says what it refuses then.

Everything is decided on one event loop, and whoever asks waits for one turn of it: for all requests that are ready by
then. A turn that takes seconds makes renewals late and healthy leases lapse; and with it wait the timers, the commits,
and every answer that hangs on one. So, counted from when the loop last came round, if it has found much to do since:

- after `TURN_MS`, what is `VITAL` is served and all else put to rest, as it was read. The next turns take it up again,
  for `TURN_MS` each: of each kind the oldest first, and the kinds by turns;
- after `new_ms`, what is `NEW` is refused, which takes a fraction of the work; after `most_ms`, what is `USUAL` too.
  If the oldest of a kind has rested for longer than that, what is taken up of it is refused after `SERVE_MS`.

A commit that does not end makes the server refuse what is `NEW`, which would only gather behind it.

Not covered: a flood of vital requests; connections, each of which costs something before it asks for anything, up to
their bounds; and a single request that takes long by itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

import msgspec

from openintent.server import problems
from openintent.server.urgency import Urgency

log = logging.getLogger("openintent.server")

LOOK_MS: Final = 50
TURN_MS: Final = 100  # two looks; a busy server with hundreds of clients needs half of it for a turn
# Half of a turn is for what is late too: if all of that were refused, and came back at once, nothing would get through.
SERVE_MS: Final = 50
ORDINARY_MAX: Final = 500  # begun in a turn: these are carried out behind it, and take some 0.1 ms each
RESTING_BYTES_MAX: Final = 64 * 2**20  # in all; what finds no room is served
# A turn with fewer requests than this is not long because of them: the process slept, or one took long.
BUSY_MIN: Final = 512
QUIET_S: Final = 1.0  # without a refusal, the overload is over
RETRY_AFTER_S: Final = 1.0

_REFUSAL: Final = problems.plain(
    "overloaded",
    "the server is behind; nothing happened",
    hint="try again after retry_after_seconds",
    retry_after_seconds=RETRY_AFTER_S,
)
PAYLOAD: Final = problems.encode(_REFUSAL)
RETRY_LINE: Final = problems.retry_after(RETRY_AFTER_S)


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How far behind the server may be."""

    new_ms: int = 250
    most_ms: int = 1_000
    commit_ms: int = 2_000


class Reader(Protocol):
    """A connection, for whoever decides when it is read."""

    def rest(self) -> None:
        """Read nothing more, until it goes on."""

    def go_on(self, data: bytes, /) -> None:
        """With what was read last, as if it came now."""


class Overload:
    """Refuses nothing and paces nobody before `start`."""

    def __init__(
        self,
        patience: Patience | None = None,
        commit_age_ms: Callable[[], int] = lambda: 0,
        clock_s: Callable[[], float] = monotonic,
    ) -> None:
        patience = patience or Patience()
        self._patience_s = {Urgency.NEW: patience.new_ms / 1_000, Urgency.USUAL: patience.most_ms / 1_000}
        self._commit_ms_max = patience.commit_ms
        self._commit_age_ms = commit_age_ms
        self._clock_s = clock_s
        self.asked = 0  # requests since the last look; the service counts, which is cheaper than to ask for the time
        self.begun = 0  # requests of the ordinary lane, since then
        self.turn_until_s = self._serve_until_s = float("inf")
        self._until_s = dict.fromkeys(self._patience_s, float("inf"))
        self._resting: dict[Urgency, deque[tuple[float, Reader, bytes]]] = {each: deque() for each in self._patience_s}
        self._resting_bytes = 0
        self._late: set[Urgency] = set()  # while what rests is taken up: of these some has rested for too long
        self._turns = deque([Urgency.USUAL, Urgency.NEW])  # the first was the last to be taken up
        self._timer: asyncio.TimerHandle | None = None
        self._began_s: float | None = None
        self._refused_at_s = 0.0
        self._refused_before = 0
        self.refused = 0  # in all

    def refuses(self, urgency: Urgency) -> bool:
        """Whether there is no time for this now. To be asked from `BUSY_MIN` on, and not for what is vital."""
        now_s = self._clock_s()
        until_s = self._until_s[urgency]
        if now_s <= (min(until_s, self._serve_until_s) if urgency in self._late else until_s):
            return False
        if self._began_s is None:
            self._began_s, self._refused_before = now_s, self.refused
            log.warning("overload began")
        self._refused_at_s = now_s
        self.refused += 1
        return True

    def put_to_rest(self, reader: Reader, data: bytes, urgency: Urgency) -> bool:
        """It came late in a turn: it rests if it can wait and there is room. Whether it does."""
        if urgency is Urgency.VITAL or self._resting_bytes + len(data) > RESTING_BYTES_MAX:
            return False
        reader.rest()
        self._resting[urgency].append((self._clock_s(), reader, data))
        self._resting_bytes += len(data)
        return True

    # Looking

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_MS / 1_000, self.start)
        self.look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """The loop has come round: what is ready now has its time from here, and first what rests."""
        now_s = self._clock_s()
        self.turn_until_s, self._serve_until_s = now_s + TURN_MS / 1_000, now_s + SERVE_MS / 1_000
        self._until_s = {each: now_s + patience_s for each, patience_s in self._patience_s.items()}
        # Where something rests it is known already that there is too much to do.
        self.asked, self.begun = BUSY_MIN if any(self._resting.values()) else 0, 0
        if self._commit_age_ms() > self._commit_ms_max:
            self.asked, self._until_s[Urgency.NEW] = BUSY_MIN, 0.0
        self._take_up(now_s)
        if self._began_s is not None and now_s - self._refused_at_s >= QUIET_S:
            lasted_s = round(self._refused_at_s - self._began_s, 1)
            log.warning("overload ended seconds=%s refused=%d", lasted_s, self.refused - self._refused_before)
            self._began_s = None

    def _take_up(self, now_s: float) -> None:
        """By turns, so that a flood of the one kind costs the other nothing but time."""
        kinds = self._resting.items()
        self._late = {each for each, resting in kinds if resting and now_s - resting[0][0] > self._patience_s[each]}
        while any(self._resting.values()) and self._clock_s() < self.turn_until_s and self.begun < ORDINARY_MAX:
            self._turns.rotate()
            resting = self._resting[self._turns[0]]
            if resting:
                _, reader, data = resting.popleft()
                self._resting_bytes -= len(data)
                reader.go_on(data)
        self._late = set()
        if any(self._resting.values()):
            self.turn_until_s = now_s  # what comes now rests behind it
