"""What an event says, in a few words for people."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from openintent.cli import show

JSON = Mapping[str, Any]

WORDS_MAX: Final = 200  # of what an event carries that we have no words for


def happening(event: JSON) -> str:
    payload = event.get("payload") or {}
    tell = _TELLINGS.get(event["event_type"])
    told = tell(payload) if tell is not None else ""
    return told or _whatever(event, payload)


def _whatever(event: JSON, payload: JSON) -> str:
    if event["event_type"] == "lease_queue":
        return f"{event.get('queue_length')} wait for {event.get('scope')}"
    text = show.compact(payload)
    return text if len(text) <= WORDS_MAX else f"{text[: WORDS_MAX - 1]}…"


def _acquired(payload: JSON) -> str:
    purpose = f": {payload['purpose']}" if payload.get("purpose") else ""
    return f"{_lease(payload)}{purpose}"


def _ended(payload: JSON) -> str:
    how = payload.get("reason")
    cause = payload.get("cause")
    more = "" if cause in (None, how) else f" ({cause})"
    note = f": {payload['note']}" if payload.get("note") else ""
    return f"{_lease(payload)}, {how}{more}{note}"


def _lease(payload: JSON) -> str:
    return f"{payload.get('scope')} of {payload.get('holder')}, token {payload.get('token')}"


def _patched(payload: JSON) -> str:
    patches = payload.get("patches")
    if not isinstance(patches, list):
        return ""
    paths = ", ".join(str(patch.get("path")) for patch in patches if isinstance(patch, Mapping))
    return f"{paths} (version {payload.get('version')})"


def _status(payload: JSON) -> str:
    reason = f": {payload['reason']}" if payload.get("reason") else ""
    return f"{payload.get('old_status')} -> {payload.get('new_status')}{reason}"


def _assigned(payload: JSON) -> str:
    return f"{payload.get('agent_id')} as {payload.get('role')}"


def _member(payload: JSON) -> str:
    return f"{payload.get('intent_id')} as {payload.get('role')}"


def _decided(payload: JSON) -> str:
    why = f": {payload['reasoning']}" if payload.get("reasoning") else ""
    return f"{payload.get('decision_type')} {payload.get('outcome')}{why}"


_TELLINGS: Final[Mapping[str, Callable[[JSON], str]]] = {
    "lease_acquired": _acquired,
    "lease_released": _ended,
    "state_patched": _patched,
    "status_changed": _status,
    "agent.status_changed": _status,
    "agent.dead": _status,
    "agent_assigned": _assigned,
    "agent_unassigned": _assigned,
    "added_to_portfolio": _member,
    "removed_from_portfolio": _member,
    "intent_created": lambda payload: str(payload.get("title") or ""),
    "portfolio_created": lambda payload: str(payload.get("name") or ""),
    "decision_recorded": _decided,
    "arbitration_requested": lambda payload: str(payload.get("reason") or ""),
    "comment": lambda payload: str(payload.get("text") or ""),
}
