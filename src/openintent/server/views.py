"""The ledger's things as they are shown: seconds for milliseconds, dates for people."""

from typing import Final, Protocol

from openintent.core.grants import constant_part
from openintent.model import (
    Agent,
    Assignment,
    Decision,
    Event,
    Grant,
    Intent,
    Lease,
    Member,
    Portfolio,
    Waiter,
)
from openintent.server.dates import Dates
from openintent.spaces import home_of, intent_of, portfolio_of
from openintent.wire import (
    AgentView,
    AssignmentView,
    CapacityView,
    CoordinatorView,
    DecisionView,
    EventView,
    HeartbeatConfigView,
    IntentView,
    LeaseStory,
    LeaseView,
    MemberView,
    PortfolioView,
    WaiterView,
)

COORDINATOR_STATUS: Final = {  # OpenIntent's words
    "active": "active",
    "released": "completed",
    "expired": "failed_over",
    "revoked": "failed_over",
}


class Calendar(Protocol):
    """What turns ledger time into dates. It has no part in any number."""

    date_offset_ms: int


class Views:
    """Shows things at an instant."""

    __slots__ = ("calendar", "dates")

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self.dates = Dates()

    def date(self, at_ms: int) -> str:
        return self.dates.any(at_ms)

    def lease(self, lease: Lease, *, now_ms: int, waited_ms: int = 0) -> LeaseView:
        remaining_ms = max(0, lease.deadline_ms - now_ms) if lease.status == "active" else 0
        return self.lease_with(lease, remaining_ms, waited_ms)

    def lease_with(self, lease: Lease, remaining_ms: int, waited_ms: int = 0) -> LeaseView:
        """The same for whoever was told how much is left."""
        ended_at_ms, max_hold_ms, progress_ms = lease.ended_at_ms, lease.max_hold_ms, lease.progress_ms
        expires_at_ms = lease.deadline_ms + self.calendar.date_offset_ms if ended_at_ms is None else ended_at_ms
        granted = self.date(lease.granted_at_ms)
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
            lease.preempt_reason is not None,
        )

    def story(self, shown: LeaseView, events: list[Event]) -> LeaseStory:
        fields = {name: getattr(shown, name) for name in shown.__struct_fields__}
        return LeaseStory(**fields, timeline=[self.event(event) for event in events])

    def event(self, event: Event) -> EventView:
        return EventView(
            id=str(event.seq),
            seq=event.seq,
            intent_id=intent_of(event.space) or intent_of(event.also or ""),
            space=event.space,
            event_type=event.type,
            actor=event.actor,
            payload=_payload(event),
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

    def decision(self, decision: Decision) -> DecisionView:
        return DecisionView(
            id=decision.id,
            decision_id=decision.id,
            intent_id=decision.intent_id,
            decision_maker_id=decision.actor,
            decision_type=decision.type,
            outcome=decision.outcome,
            reasoning=decision.reasoning,
            created_at=self.date(decision.made_at_ms),
        )

    def portfolio(self, portfolio: Portfolio) -> PortfolioView:
        created, updated = self.date(portfolio.created_at_ms), self.date(portfolio.updated_at_ms)
        return PortfolioView(
            id=portfolio.id,
            name=portfolio.name,
            description=portfolio.description,
            created_by=portfolio.created_by,
            status=portfolio.status,
            governance_policy=portfolio.governance_policy,
            metadata=portfolio.metadata,
            created_at=created,
            updated_at=updated,
            createdAt=created,
            updatedAt=updated,
        )

    def member(self, member: Member) -> MemberView:
        return MemberView(
            id=member.id,
            membership_id=member.id,
            portfolio_id=member.portfolio_id,
            intent_id=member.intent_id,
            role=member.role,
            priority=member.priority,
            added_at=self.date(member.added_at_ms),
        )

    def coordinator(self, lease: Lease, *, now_ms: int, waited_ms: int = 0) -> CoordinatorView:
        """A coordinator's lease. What else it says of itself is in the metadata of the lease."""
        shown = self.lease(lease, now_ms=now_ms, waited_ms=waited_ms)
        home = home_of(lease.space)
        said = lease.metadata or {}
        beat_ms = lease.deadline_ms - lease.ttl_ms + self.calendar.date_offset_ms
        live = lease.status == "active"
        return CoordinatorView(
            id=lease.id,
            intent_id=intent_of(home),
            portfolio_id=portfolio_of(home),
            agent_id=lease.holder,
            role=said.get("role", "coordinator"),
            supervisor_id=said.get("supervisor_id"),
            coordinator_type=said.get("coordinator_type", "llm"),
            scope="intent" if intent_of(home) is not None else "portfolio",
            status=COORDINATOR_STATUS[lease.status],
            guardrails=said.get("guardrails"),
            heartbeat_interval_seconds=said.get("heartbeat_interval_seconds") or lease.ttl_ms / 3_000,
            last_heartbeat=self.date(beat_ms) if live else None,
            granted_at=shown.acquired_at,
            expires_at=shown.expires_at,
            version=1,
            token=lease.token,
            ttl_seconds=shown.ttl_seconds,
            remaining_seconds=shown.remaining_seconds,
            waited_seconds=shown.waited_seconds,
            space=lease.space,
            ended_reason=lease.ended_reason,
            lease_metadata=said.get("metadata", {}),
            metadata=said.get("metadata", {}),
        )

    def agent(self, agent: Agent) -> AgentView:
        beats = HeartbeatConfigView(agent.heartbeat_ms / 1_000, agent.unhealthy_ms / 1_000, agent.dead_ms / 1_000)
        return AgentView(
            id=agent.id,
            agent_id=agent.id,
            status=agent.status,
            role_id=agent.role_id,
            name=agent.name,
            capabilities=agent.capabilities,
            capacity=CapacityView(agent.load_max, agent.load),
            endpoint=agent.endpoint,
            heartbeat_config=beats,
            drain_timeout_seconds=None if agent.drain_ms is None else agent.drain_ms / 1_000,
            metadata=agent.metadata,
            registered_at=self.date(agent.registered_at_ms),
            last_heartbeat_at=self.date(agent.seen_at_ms) if agent.seen_at_ms else None,
            version=agent.version,
        )

    def assignment(self, assignment: Assignment, intent: Intent) -> AssignmentView:
        return AssignmentView(
            id=f"{assignment.intent_id}:{assignment.agent_id}",
            intent_id=assignment.intent_id,
            agent_id=assignment.agent_id,
            role=assignment.role,
            assigned_by=assignment.assigned_by,
            assigned_at=self.date(assignment.assigned_at_ms),
            intent_title=intent.title,
            intent_status=intent.status,
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


def _payload(event: Event) -> dict[str, object]:
    if event.grant is not None:
        return _grant_payload(event.grant)
    return event.payload or {} if event.lease is None else _end_payload(event.lease)


def _grant_payload(grant: Grant) -> dict[str, object]:
    return {
        "lease_id": grant.id,
        "scope": grant.scope,
        "token": grant.token,
        "holder": grant.holder,
        "purpose": grant.purpose,
        "metadata": grant.metadata or {},
    }


def _end_payload(lease: Lease) -> dict[str, object]:
    """What the event of its end says of a lease: what that of its grant said, and how it ended."""
    reason = "preempted" if lease.ended_reason == "preempted" else lease.status
    ending = {"reason": reason, "cause": lease.ended_reason, "note": lease.ended_note}
    return _grant_payload(constant_part(lease)) | ending
