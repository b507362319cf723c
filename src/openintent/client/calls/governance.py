"""Policies, decisions and arbitration."""

from openintent.client import replies
from openintent.client.calls.base import JSON, Call, headers, space_path
from openintent.client.values import Arbitration, Decision, Intent, Policy


def _path(intent_id: str, what: str) -> str:
    return f"{space_path(f'intent:{intent_id}')}/{what}"


def set_policy(intent_id: str, policy: JSON, *, version: int | None) -> Call[Intent]:
    # With a version, a repeat would be refused for the change that the first one made.
    sent, repeatable = headers(version=version), version is None
    return Call("PUT", _path(intent_id, "governance"), replies.intent, policy, sent, repeatable=repeatable)


def get_policy(intent_id: str) -> Call[Policy]:
    return Call("GET", _path(intent_id, "governance"), replies.reading(Policy))


def remove_policy(intent_id: str, *, version: int | None) -> Call[Intent]:
    sent, repeatable = headers(version=version), version is None
    return Call("DELETE", _path(intent_id, "governance"), replies.intent, headers=sent, repeatable=repeatable)


def record_decision(intent_id: str, body: JSON, *, attempt: str) -> Call[Decision]:
    return Call("POST", _path(intent_id, "decisions"), replies.reading(Decision), body, headers(attempt=attempt))


def get_decisions(intent_id: str) -> Call[list[Decision]]:
    return Call("GET", _path(intent_id, "decisions"), replies.listing(Decision, "decisions"))


def request_arbitration(intent_id: str, body: JSON, *, attempt: str) -> Call[Arbitration]:
    return Call("POST", _path(intent_id, "arbitrate"), replies.reading(Arbitration), body, headers(attempt=attempt))
