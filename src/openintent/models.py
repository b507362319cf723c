"""What the clients return, under the name that OpenIntent's documents use: `from openintent.models import ...`."""

from openintent.client.coordinator import CoordinatorLease
from openintent.client.lease import Lease
from openintent.client.values import (
    AgentRecord,
    AggregateStatus,
    Arbitration,
    Assignment,
    Capacity,
    Decision,
    Discovery,
    Event,
    Heartbeat,
    HeartbeatConfig,
    Intent,
    LeaseVerdict,
    Membership,
    Policy,
    Portfolio,
    PortfolioIntents,
    Released,
    TokenCheck,
    Waiter,
)

__all__ = [
    "AgentRecord",
    "AggregateStatus",
    "Arbitration",
    "Assignment",
    "Capacity",
    "CoordinatorLease",
    "Decision",
    "Discovery",
    "Event",
    "Heartbeat",
    "HeartbeatConfig",
    "Intent",
    "Lease",
    "LeaseVerdict",
    "Membership",
    "Policy",
    "Portfolio",
    "PortfolioIntents",
    "Released",
    "TokenCheck",
    "Waiter",
]
