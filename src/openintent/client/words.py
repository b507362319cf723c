"""Lines for the log, written on a thread of their own.

A handler of the log is the user's, and may wait for a disk or a network. Whoever watches leases must not wait with it.
"""

import logging
import threading
from collections import deque
from typing import Any, Final

logger = logging.getLogger("openintent.client")

UNSAID_MAX: Final = 1_000  # behind a handler that hangs; the oldest are left out

Word = tuple[str, tuple[Any, ...]]


class Words:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unsaid: deque[Word] = deque(maxlen=UNSAID_MAX)
        self._speaking = False

    def warning(self, message: str, *args: object) -> None:
        """Soon, and in the order of the calls. Never waits."""
        with self._lock:
            self._unsaid.append((message, args))
            if self._speaking:
                return
            self._speaking = True
        try:
            threading.Thread(target=self._say_all, name="openintent-words", daemon=True).start()
        except RuntimeError:  # no thread is to be had: it is said with the next word
            self._speaking = False

    def _say_all(self) -> None:
        try:
            while (word := self._next()) is not None:
                message, args = word
                logger.log(logging.WARNING, message, *args)
        except BaseException:  # of a handler, and for the log's owner to see; the next word is said all the same
            self._speaking = False
            raise

    def _next(self) -> Word | None:
        with self._lock:
            if self._unsaid:
                return self._unsaid.popleft()
            self._speaking = False
            return None
