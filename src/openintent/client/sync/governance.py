"""Who may act on an intent, what was decided, and what a person is to decide."""

from collections.abc import Mapping
from typing import Any, Unpack

from openintent.client import calls, spelling
from openintent.client.holder import new_attempt
from openintent.client.spelling import PolicyOptions
from openintent.client.sync.base import Base
from openintent.client.values import Arbitration, Decision, Intent, Policy


class Governance(Base):
    def set_governance_policy(
        self,
        intent_id: str,
        policy: Mapping[str, Any] | None = None,
        *,
        expected_version: int | None = None,
        **rules: Unpack[PolicyOptions],
    ) -> Intent:
        """Replace the policy by this one, given as a mapping or rule by rule (`write_scope="assigned_only"`)."""
        body = spelling.policy_of(policy, rules)
        return self._ask(calls.set_policy(intent_id, body, version=expected_version))

    def get_governance_policy(self, intent_id: str) -> Policy:
        return self._ask(calls.get_policy(intent_id))

    def remove_governance_policy(self, intent_id: str, *, expected_version: int | None = None) -> Intent:
        return self._ask(calls.remove_policy(intent_id, version=expected_version))

    def record_decision(
        self,
        intent_id: str,
        decision_type: str,
        outcome: str,
        reasoning: str = "",
        *,
        rationale: str = "",
        decided_by: str | None = None,
    ) -> Decision:
        """Write down what was decided, and why. `rationale` is another name for `reasoning`."""
        body = {"decision_type": decision_type, "outcome": outcome, "reasoning": reasoning or rationale}
        told = body | ({} if decided_by is None else {"decided_by": decided_by})
        return self._ask(calls.record_decision(intent_id, told, attempt=new_attempt()))

    def get_decisions(self, intent_id: str) -> list[Decision]:
        return self._ask(calls.get_decisions(intent_id))

    def request_arbitration(
        self, intent_id: str, reason: str, context: Mapping[str, Any] | None = None, *, requested_by: str | None = None
    ) -> Arbitration:
        """Ask a person to decide. The question is in the intent's log."""
        body: dict[str, Any] = {"reason": reason, "context": context or {}}
        told = body | ({} if requested_by is None else {"requested_by": requested_by})
        return self._ask(calls.request_arbitration(intent_id, told, attempt=new_attempt()))
