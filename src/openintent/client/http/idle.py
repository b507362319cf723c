"""Connections between two uses."""

import threading
from collections import deque
from typing import Final, Generic, Protocol, TypeVar

from openintent.client.http.messages import Origin, origin_of
from openintent.clock import boot_s

# Below uvicorn's 5 s: whoever closes an idle connection first should be us, or a request could meet the close.
IDLE_S_MAX: Final = 4.0
# To one server. Those that a burst of requests needed beyond that are closed after it.
IDLE_MAX: Final = 100


class Connection(Protocol):
    idle_since: float

    def quiet(self) -> bool:
        """Whether nothing came since its last answer: neither an end nor what nobody asked for."""
        ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)


class Idle(Generic[C]):
    """The newest is used first, so that those which are not needed grow old. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of signals may send something by the line that it has interrupted
        self._kept: dict[object, deque[C]] = {}
        self._closed = False

    def take(self, where: object) -> C | None:
        """One that can be used; those that cannot are closed."""
        while True:
            with self._lock:
                kept = self._kept.get(where)
                if not kept:
                    return None
                found = kept.pop()
            if boot_s() - found.idle_since < IDLE_S_MAX and found.quiet():
                return found
            found.close()

    def put(self, where: object, connection: C) -> None:
        connection.idle_since = now = boot_s()
        with self._lock:
            kept = self._kept.get(where)
            if kept is None:
                kept = self._kept[where] = deque()
            kept.append(connection)
            spent = [kept.popleft()] if kept and _is_spent(kept, now) else []
            if self._closed:
                spent += kept
                kept.clear()
        for each in spent:
            each.close()

    def drop(self, where: object) -> None:
        with self._lock:
            dropped = self._kept.pop(where, ())
        for each in dropped:
            each.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            dropped = [each for kept in self._kept.values() for each in kept]
            self._kept.clear()
        for each in dropped:
            each.close()


def _is_spent(kept: deque[C], now: float) -> bool:
    return kept[0].idle_since <= now - IDLE_S_MAX or len(kept) > IDLE_MAX


class Reused(Generic[C]):
    """What the lines of both kinds do about their connections: each is used again and again."""

    def __init__(self, host: str | None = None) -> None:
        self._host = host  # what requests call the servers by, if not by their own names
        self._idle: Idle[C] = Idle()

    def _origin(self, url: str) -> Origin:
        origin = origin_of(url, self._host)
        assert origin is not None, url
        return origin

    def leave(self, url: str) -> None:
        """Ask it by no connection any more that was there before."""
        self._idle.drop(self._origin(url))
