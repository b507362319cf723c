"""The lease of a coordinator in the hands of a program."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from openintent.client.lease import Lease
from openintent.client.replies import Seen
from openintent.spaces import COORDINATOR_SPACE, INTENT_SPACE, PORTFOLIO_SPACE


class CoordinatorLease(Lease):
    """The right to coordinate a portfolio or an intent: a lease like any other that says more of itself."""

    @property
    def portfolio_id(self) -> str | None:
        return self._home(PORTFOLIO_SPACE)

    @property
    def intent_id(self) -> str | None:
        return self._home(INTENT_SPACE)

    def _home(self, kind: str) -> str | None:
        home = self.space.removeprefix(COORDINATOR_SPACE)
        return home.removeprefix(kind) if home.startswith(kind) else None

    @property
    def role(self) -> str:
        return str(self._said("role") or "coordinator")

    @property
    def supervisor_id(self) -> str | None:
        """The agent that may take the lease away."""
        agent: str | None = self._said("supervisor_id")
        return agent

    @property
    def coordinator_type(self) -> str:
        return str(self._said("coordinator_type") or "llm")

    @property
    def guardrails(self) -> Mapping[str, Any] | None:
        rails: Mapping[str, Any] | None = self._said("guardrails")
        return rails

    @property
    def heartbeat_interval_seconds(self) -> float:
        return self._said("heartbeat_interval_seconds") or self.ttl_seconds / 3

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._said("metadata") or {}

    @property
    def granted_at(self) -> datetime:
        return self.acquired_at

    def _said(self, name: str) -> Any:
        return self._seen.view.metadata.get(name)


def lease_of(seen: Seen, *, held_by_us: bool) -> Lease:
    kind = CoordinatorLease if seen.view.space.startswith(COORDINATOR_SPACE) else Lease
    return kind(seen, held_by_us=held_by_us)
