"""Streams of events for programs: an iterator that connects when it is first asked, and again whenever it must.

What a connection brings is read ahead, by a thread or a task of the stream's own, so that closing it, a timeout or a
cancellation ends only the waiting for the next event, at once and without harm to the connection. It is read ahead
only so far: a reader that does not keep up leaves the rest to the server, and is never skipped ahead.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

from openintent.client.drivers import drawn_s
from openintent.client.flows import Pause
from openintent.client.following import QUEUE, Following, Told
from openintent.client.transport import HttpTransport, Incoming
from openintent.client.values import Event
from openintent.clock import boot_s
from openintent.errors import OpenIntentError
from openintent.spaces import INTENT_SPACE

T = TypeVar("T")

READ_AHEAD_MAX: Final = 1_000


def event_of(told: Told) -> Event:
    """What is told but not logged has no record: all of it is the payload."""
    try:
        if told.type != QUEUE:
            return msgspec.json.decode(told.data, type=Event)
        payload = msgspec.json.decode(told.data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise OpenIntentError(f"the server's event is not understood: {exc}", code="bad_answer") from exc
    space, now = payload.get("space", ""), datetime.now(UTC)
    intent_id = space.removeprefix(INTENT_SPACE) if space.startswith(INTENT_SPACE) else None
    return Event(event_type=told.type, created_at=now, space=space, intent_id=intent_id, payload=payload)


class Buffer:
    """What was read and not yet taken, and how it ended."""

    def __init__(self, following: Following) -> None:
        self.following = following
        self.closed = False
        self._told: deque[Told] = deque()
        self._taken = following.cursor
        self._failure: Exception | None = None

    @property
    def cursor(self) -> int | None:
        """All events up to this one were taken, or were not wanted."""
        return self._taken if self._told else self.following.cursor

    @property
    def full(self) -> bool:
        return len(self._told) >= READ_AHEAD_MAX

    @property
    def ready(self) -> bool:
        return bool(self._told or self._failure or self.closed)

    def put(self, told: list[Told]) -> None:
        self._told.extend(told)

    def fail(self, failure: Exception) -> None:
        self._failure = failure

    def take(self) -> Told | None:
        """The next one; None if it was closed. A failure comes after all that came before it, and once."""
        if self.closed:
            return None
        if self._told:
            told = self._told.popleft()
            self._taken = told.seq or self._taken
            return told
        assert self._failure is not None
        self.closed = True
        raise self._failure


class _Pump:
    """The thread that reads ahead. It knows nothing of the stream, so that one which is forgotten can be closed."""

    def __init__(self, following: Following, transport: HttpTransport) -> None:
        self.buffer = Buffer(following)
        self._transport = transport
        # Taken as it is, and not through the condition, whose methods an interrupt can leave with the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._incoming: Incoming | None = None
        self._started = False
        self._pid = os.getpid()

    def take(self) -> Told | None:
        if self._pid != os.getpid():
            raise RuntimeError("a forked process does not inherit its parent's streams: subscribe anew")
        with self._lock:
            if not self._started:
                threading.Thread(target=self._work, name="openintent-stream", daemon=True).start()
                self._started = True
            self._changed.wait_for(lambda: self.buffer.ready)
            self._changed.notify_all()  # there is room again
            return self.buffer.take()

    def close(self) -> None:
        if self._pid != os.getpid():
            return
        with self._lock:
            self.buffer.closed = True
            incoming = self._incoming
            self._changed.notify_all()
        if incoming is not None:
            incoming.interrupt()

    def _work(self) -> None:
        try:
            while not self.buffer.closed:
                pause = self._connect()
                with self._lock:
                    self._changed.wait_for(lambda: self.buffer.closed, drawn_s(pause))
        except Exception as exc:  # noqa: BLE001  # whoever waits for an event must hear why none will come
            with self._lock:
                self.buffer.fail(exc)
                self._changed.notify_all()

    def _connect(self) -> Pause:
        """One connection, from its request to its end; how long to wait for the next."""
        following = self.buffer.following
        try:
            self._read(self._transport.listen(following.call(now=boot_s())))
        except OpenIntentError as exc:
            # What goes wrong while it is being closed is no news.
            return Pause(0.0, 0.0) if self.buffer.closed else following.failed(exc, now=boot_s())
        return following.ended()

    def _read(self, incoming: Incoming) -> None:
        try:
            with self._lock:
                self._incoming = incoming
                if self.buffer.closed:
                    return
            for piece in incoming.pieces():
                if not self._put(piece):
                    return
        finally:
            with self._lock:
                self._incoming = None
            incoming.close()

    def _put(self, piece: bytes) -> bool:
        with self._lock:
            self.buffer.put(self.buffer.following.read(piece))
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.buffer.closed or not self.buffer.full)
            return not self.buffer.closed


class Stream(Generic[T]):
    """Events as they happen. It may be closed from anywhere; then the iteration ends."""

    def __init__(self, following: Following, transport: HttpTransport, read: Callable[[Told], T]) -> None:
        self._pump = _Pump(following, transport)
        self._read = read
        # Nobody can close what nobody has any more: a loop that was left with `break`.
        self._close = weakref.finalize(self, self._pump.close)

    @property
    def cursor(self) -> int | None:
        """The place in the log: `after=stream.cursor` goes on from here. None before anything was heard."""
        return self._pump.buffer.cursor

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        told = self._pump.take()
        if told is None:
            raise StopIteration
        return self._read(told)

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
