"""One reader's place in a stream of events: what to ask for next, and what each piece of the answer means.

Promised: every event after the place where it began is told, once and in order, over whatever ends its connections.
The authority on the order is the server's log; the place is the number of the last event that was read. Not promised:
anything about events that the log no longer keeps: then it ends with `EventsGone`, or skips them if it was told to.

Nothing here sends, sleeps or reads a clock.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from openintent.client import calls
from openintent.client.calls import Call
from openintent.client.flows import Pause, backoff, patience_for, worth_repeating
from openintent.client.sse import Message, Parser, TooLong
from openintent.errors import EventsGone, OpenIntentError, OutcomeUnknown, Unavailable

# A server pings at least every 10 s; who has been silent for longer than this is not there any more.
SILENCE_S_MAX: Final = 25.0
# Unless the server says otherwise.
RETRY_S_DEFAULT: Final = 1.0
RETRY_S_MAX: Final = 30.0

QUEUE: Final = "lease_queue"  # told, but not logged
CLOSED: Final = "closed"
ASSIGNED: Final = "agent_assigned"
RELEASED: Final = "lease_released"
ENDS: Final = frozenset({RELEASED, "lease_expired", "lease_revoked", "lease_preempted"})

BAD_ANSWER: Final = "bad_answer"  # asking again would bring the same

RAISE: Final = "raise"
SKIP: Final = "skip"


@dataclass(frozen=True, slots=True)
class Told:
    """An event as it came: its place in the log (0: it has none), its type, and its JSON."""

    seq: int
    type: str
    data: str


class Following:
    """`after` is the event after which to begin, 0 for the oldest that is kept, None for now."""

    def __init__(
        self, space: str, *, after: int | None, types: Collection[str] | None, on_gap: str, patience_s: float
    ) -> None:
        self.cursor = after
        self._space = space
        self._types = None if types is None else frozenset(name.lower() for name in types)
        self._skips = on_gap == SKIP
        self._patience_s = patience_s
        self._began_at: float | None = None
        self._connected = False  # at least once: a place that exists is waited for as long as it takes
        self._caught_up = False  # the open assignments have all been told
        self._assigned: set[object] = set()  # until then, those that have
        self._failures = 0
        self._retry_s = RETRY_S_DEFAULT
        self._parser = Parser()

    def call(self, *, now: float) -> Call[None]:
        """The request of the next connection."""
        if self._began_at is None:
            self._began_at = now
        self._parser = Parser()
        return calls.listen(self._space, after=self.cursor, silence_s=SILENCE_S_MAX)

    # What comes in

    def read(self, piece: bytes) -> list[Told]:
        self._connected = True
        try:
            messages = self._parser.feed(piece)
        except TooLong as exc:
            raise OpenIntentError(f"the stream is not understood: {exc}", code=BAD_ANSWER) from exc
        return [told for message in messages if (told := self._take(message)) is not None]

    def _take(self, message: Message) -> Told | None:
        if message.retry_ms is not None:
            self._retry_s = min(message.retry_ms / 1_000, RETRY_S_MAX)
        if message.event == CLOSED and "seq" not in _fields(message):  # else it is somebody's event of that name
            self._closed(message)
            return None
        if message.event == ASSIGNED and (fields := _fields(message)).get("replayed"):
            return self._open_assignment(message, fields)
        seq = _number(message.id)
        if seq is not None:
            self._failures = 0
            self._caught_up |= message.retry_ms is None  # that is a part of the greeting, and comes before them
            if self.cursor is not None and seq <= self.cursor:
                return None  # it was told before
            self.cursor = seq
        return self._wanted(Told(seq or 0, message.event, message.data)) if message.data is not None else None

    def _wanted(self, told: Told) -> Told | None:
        """A lease's end is told under the name of how it ended, and logged under one name."""
        if self._types is None:
            return None if told.type == QUEUE and not told.seq else told
        names = {told.type, RELEASED} if told.type in ENDS else {told.type}
        return told if names & self._types else None

    def _closed(self, message: Message) -> None:
        """The server ends it. Its place counts only if we have none: ours is what we really read."""
        cursor = _fields(message).get("cursor")
        if self.cursor is None and isinstance(cursor, int):
            self.cursor = cursor

    def _open_assignment(self, message: Message, fields: dict[str, Any]) -> Told | None:
        """An agent is told its open assignments whenever it connects; it needs them once, and they move no place."""
        intent_id = fields.get("intent_id")
        if self._caught_up or intent_id in self._assigned:
            return None
        self._assigned.add(intent_id)
        return self._wanted(Told(0, message.event, message.data or ""))

    # When it ends

    def ended(self) -> Pause:
        """The answer was over: the server stops, or had to let us go."""
        return self._pause(None)

    def failed(self, exc: OpenIntentError, *, now: float) -> Pause:
        """How long to leave it alone. Raises what trying again will not mend."""
        if isinstance(exc, EventsGone) and self._skips and exc.oldest is not None:
            # A place beyond the end is of a log that was since restored from a backup: begin anew.
            self.cursor = exc.oldest - 1 if (self.cursor or 0) < exc.oldest else None
            return self._pause(None)
        if not self._may_pass(exc, now):
            raise exc
        return self._pause(exc.retry_after if isinstance(exc, Unavailable) else None)

    def _may_pass(self, exc: OpenIntentError, now: float) -> bool:
        if self._connected:
            broken = exc.status_code >= 500 and exc.code != BAD_ANSWER
            return isinstance(exc, Unavailable | OutcomeUnknown) or broken
        assert self._began_at is not None
        passing = isinstance(exc, Unavailable | OutcomeUnknown) and worth_repeating(exc)
        return passing and now < self._began_at + patience_for(exc, self._patience_s)

    def _pause(self, retry_after_s: float | None) -> Pause:
        self._failures += 1
        return backoff(self._failures, first_s=self._retry_s, retry_after_s=retry_after_s)


def _fields(message: Message) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(message.data or "")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None
