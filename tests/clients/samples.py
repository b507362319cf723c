"""Values that several of these tests start from."""

from openintent.client.replies import Seen
from openintent.clock import boot_s
from openintent.trust import Trust
from openintent.wire import LeaseView

DAY = "2026-11-15T12:00:00.000000"
AGENT = "a1"


def promise(sent_at: float = 0.0, remaining_s: float = 30.0, waited_s: float = 0.0) -> Trust:
    return Trust(sent_at=sent_at, waited_s=waited_s, remaining_s=remaining_s)


def seen(
    trust: Trust | None = None, *, lease_id: str = "L1", status: str = "active", ttl_s: float = 30.0, **bounds: float
) -> Seen:
    trust = trust or promise(remaining_s=ttl_s)
    view = LeaseView(
        lease_id, "i1", "intent:i1", AGENT, "deploy", "exclusive", status, 7, ttl_s, trust.remaining_s, DAY, DAY, DAY
    )
    for name, value in bounds.items():
        setattr(view, name, value)
    return Seen(view, trust)


def seen_now(ttl_s: float = 30.0, lease_id: str = "L1") -> Seen:
    """A grant of this very moment, by the real clock."""
    return seen(promise(sent_at=boot_s(), remaining_s=ttl_s), lease_id=lease_id, ttl_s=ttl_s)
