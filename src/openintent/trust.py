"""Until when one may act on what a reply promised.

One rule serves a holder for its lease and a grantor for its term: trust is counted from the moment the request was
sent, never from when the reply came, and ends a margin before the promise does.

Not promised: that whoever ignores the end of its trust does no harm. For that, resources check tokens.
"""

from dataclasses import dataclass
from typing import Final

# Two clocks may run apart by 500 ppm each (the most that NTP slews); doubled.
DRIFT_SHARE: Final = 0.002
MARGIN_S_MAX: Final = 0.1
MARGIN_SHARE: Final = 0.1

AT_RISK_SHARE: Final = 2 / 3
SOFT_STOP_S_MAX: Final = 5.0
SOFT_STOP_SHARE: Final = 1 / 6
RENEW_SHARE: Final = 1 / 3


def margin_s(*, waited_s: float, remaining_s: float) -> float:
    """What is held back: clock drift over the whole span, but enough for a short lease to be stopped in time."""
    return max(DRIFT_SHARE * (waited_s + remaining_s), min(MARGIN_S_MAX, remaining_s * MARGIN_SHARE))


@dataclass(frozen=True, slots=True)
class Trust:
    """A promise as its receiver may use it. All instants are on the receiver's own boot clock."""

    sent_at: float
    waited_s: float
    remaining_s: float

    @property
    def until(self) -> float:
        # Anchored to when the request left: a slow reply must shorten trust, never stretch it.
        spared_s = margin_s(waited_s=self.waited_s, remaining_s=self.remaining_s)
        return self.sent_at + self.waited_s + self.remaining_s - spared_s

    @property
    def confirmed_at(self) -> float:
        """The earliest instant at which the grantor can have made the promise, on our clock."""
        return self.sent_at + self.waited_s

    def at_risk_from(self, ttl_s: float) -> float:
        return min(self.confirmed_at + ttl_s * AT_RISK_SHARE, self.soft_stop_at(ttl_s))

    def soft_stop_at(self, ttl_s: float) -> float:
        """When the work must be told to stop, so that it has stopped when trust ends."""
        return self.until - min(SOFT_STOP_S_MAX, ttl_s * SOFT_STOP_SHARE)

    def live(self, now: float) -> bool:
        return now < self.until
