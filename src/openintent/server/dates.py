"""Dates as they are shown: ISO 8601, naive UTC with microseconds.

Under load many answers show the same millisecond, of which the text is kept. What was granted some time ago shows any
millisecond of hours or days; to keep those would help nobody, so their texts are put together from parts.
"""

from datetime import UTC, datetime
from typing import Final

from openintent.server.memo import Memo

RECENT_KEPT_MAX: Final = 1_000
MINUTES_KEPT_MAX: Final = 10_000  # a week

_MINUTE_MS: Final = 60_000
_SECONDS: Final = tuple(f"{second:02d}." for second in range(60))
_MILLISECONDS: Final = tuple(f"{ms:03d}000" for ms in range(1_000))


def _minute_text(minute: int) -> str:
    return datetime.fromtimestamp(60 * minute, UTC).strftime("%Y-%m-%dT%H:%M:")


class Dates:
    __slots__ = ("_minutes", "recent")

    def __init__(self) -> None:
        self._minutes = Memo(_minute_text, MINUTES_KEPT_MAX)
        self.recent = Memo(self.any, RECENT_KEPT_MAX)  # by their milliseconds

    def any(self, at_ms: int) -> str:
        minute, ms = divmod(at_ms, _MINUTE_MS)
        return f"{self._minutes[minute]}{_SECONDS[ms // 1_000]}{_MILLISECONDS[ms % 1_000]}"
