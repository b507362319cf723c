"""The ledger's things as they are shown: seconds for milliseconds, dates for people."""

from datetime import UTC, datetime
from typing import Final, Protocol

from openintent.core.grants import constant_part
from openintent.model import Event, Intent, Lease, Waiter, intent_of
from openintent.wire import EventView, IntentView, LeaseStory, LeaseView, WaiterView

DATES_KEPT_MAX: Final = 10_000


class Calendar(Protocol):
    """What turns ledger time into dates. It has no part in any number."""

    @property
    def date_offset_ms(self) -> int: ...


class Views:
    """Shows things at an instant."""

    __slots__ = ("_calendar", "_dates")

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._dates: dict[int, str] = {}  # their texts: under load many answers show the same millisecond

    def date(self, at_ms: int) -> str:
        """ISO 8601, naive UTC with microseconds."""
        text = self._dates.get(at_ms)
        if text is None:
            if len(self._dates) >= DATES_KEPT_MAX:
                self._dates.clear()
            second, ms = divmod(at_ms, 1_000)
            day = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            text = self._dates[at_ms] = f"{day}.{ms:03d}000"
        return text

    def lease(self, lease: Lease, *, now_ms: int, waited_ms: int = 0) -> LeaseView:
        granted = self.date(lease.granted_at_ms)
        live = lease.status == "active"
        ended_at_ms = lease.ended_at_ms
        remaining_ms = max(0, lease.deadline_ms - now_ms) if live else 0
        expires_at_ms = lease.deadline_ms + self._calendar.date_offset_ms if ended_at_ms is None else ended_at_ms
        max_hold_ms, progress_ms = lease.max_hold_ms, lease.progress_ms
        return LeaseView(
            lease.id,
            intent_of(lease.space),
            lease.space,
            lease.holder,
            lease.scope,
            "exclusive",
            lease.status,
            lease.token,
            lease.ttl_ms / 1_000,
            remaining_ms / 1_000,
            self.date(expires_at_ms),
            granted,
            granted,
            None if ended_at_ms is None else self.date(ended_at_ms),
            lease.ended_reason,
            waited_ms / 1_000,
            None if max_hold_ms is None else max_hold_ms / 1_000,
            None if progress_ms is None else progress_ms / 1_000,
            lease.cooldown_ms / 1_000,
            lease.checkpoint,
            lease.metadata or {},
            lease.purpose,
        )

    def story(self, shown: LeaseView, events: list[Event]) -> LeaseStory:
        fields = {name: getattr(shown, name) for name in shown.__struct_fields__}
        return LeaseStory(**fields, timeline=[self.event(event) for event in events])

    def event(self, event: Event) -> EventView:
        payload = _end_payload(event.lease) if event.lease is not None else event.payload or {}
        return EventView(
            id=str(event.seq),
            seq=event.seq,
            intent_id=intent_of(event.space),
            space=event.space,
            event_type=event.type,
            actor=event.actor,
            payload=payload,
            created_at=self.date(event.at_ms),
        )

    def intent(self, intent: Intent) -> IntentView:
        return IntentView(
            id=intent.id,
            title=intent.title,
            description=intent.description,
            created_by=intent.created_by,
            parent_id=intent.parent_id,
            parent_intent_id=intent.parent_id,
            depends_on=intent.depends_on,
            constraints=intent.constraints,
            state=intent.state,
            status=intent.status,
            confidence=intent.confidence,
            version=intent.version,
            governance_policy=intent.governance_policy,
            created_at=self.date(intent.created_at_ms),
            updated_at=self.date(intent.updated_at_ms),
        )

    def waiter(self, place: int, waiter: Waiter, *, now_ms: int) -> WaiterView:
        return WaiterView(
            ticket=waiter.ticket,
            agent_id=waiter.ask.holder,
            scope=waiter.ask.scope,
            place=place,
            priority=waiter.ask.priority,
            waited_seconds=max(0, now_ms - waiter.queued_ms) / 1_000,
            present=waiter.request != 0,
        )


def _end_payload(lease: Lease) -> dict[str, object]:
    """What the event of its end says of a lease: what that of its grant said, and how it ended."""
    ending = {"reason": lease.status, "cause": lease.ended_reason, "note": lease.ended_note}
    return constant_part(lease) | ending
