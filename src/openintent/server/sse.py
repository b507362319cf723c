"""Events as server-sent messages, in two families of names.

The lower-case family tells the whole log, each event as `GET .../events` shows it. The upper-case one tells what
OpenIntent's agents listen for, in their words, and nothing else. Those agents do what they are told as often as they
are told it, stumble over every other name, and when they are refused ask again at once, for ever: they are spared that.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from openintent.grantor.feed import MOVES, News, moved
from openintent.model import Assignment, Event
from openintent.server.views import Views
from openintent.spaces import AGENT_SPACE, home_of, intent_of, intent_space, portfolio_of
from openintent.wire import QueueLengthView, ReplayedView

States = dict[str, dict[str, Any]]  # by the space of the intent

_encode = msgspec.json.Encoder().encode

GREETING: Final = b"id: %d\n: connected\n\n"
PING: Final = b": ping\nid: %d\n\n"  # without data, it moves the reader's cursor and says nothing
STILL_HERE: Final = b": ping\n\n"
NO_STATE: Final[dict[str, Any]] = {}


def message(name: str, data: Any, seq: int | None = None) -> bytes:
    mark = b"" if seq is None else b"id: %d\n" % seq
    return b"%bevent: %b\ndata: %b\n\n" % (mark, name.encode(), _encode(data))


def queue_length(space: str, scope: str, length: int) -> bytes:
    """It has no number: nobody resumes by it."""
    return message("lease_queue", QueueLengthView(space, scope, length))


class Lower:
    """The whole log."""

    lengths: Final = True
    repeats: Final = True  # open assignments, to one who resumes
    refuses: Final = True  # one who resumes behind an event that the log does not have
    greeting: Final = b"retry: 1000\n" + GREETING

    def __init__(self, views: Views) -> None:
        self._views = views

    def settle(self, states: States) -> None:
        """What a reader has been shown is of no account here."""

    def __call__(self, news: News) -> bytes:
        made: bytes | None = news.forms.get("lower")
        if made is None:
            event = news.event
            name = event.type.lower() if event.lease is None else f"lease_{event.lease.status}"
            made = news.forms["lower"] = message(name, self._views.event(event), event.seq)
        return made

    def open_ones(self, assignments: list[Assignment], cursor: int) -> bytes:
        """Assignments of long ago. They have the number of the reader's place, which they do not change."""
        return b"".join(self._assigned(each, cursor) for each in assignments)

    def _assigned(self, assignment: Assignment, cursor: int) -> bytes:
        named = {"intent_id": assignment.intent_id, "agent_id": assignment.agent_id, "role": assignment.role}
        view = ReplayedView(
            intent_id=assignment.intent_id,
            space=intent_space(assignment.intent_id),
            event_type="agent_assigned",
            actor=assignment.assigned_by,
            payload=named,
            created_at=self._views.date(assignment.assigned_at_ms),
        )
        return message("agent_assigned", view, cursor)

    def closed(self, reason: str, cursor: int) -> bytes:
        return message("closed", {"reason": reason, "cursor": cursor}, cursor)


class Upper:
    """What agents listen for. One for each reader: it remembers which states that one was shown."""

    lengths: Final = False
    repeats: Final = False
    refuses: Final = False
    greeting: Final = GREETING  # they try a number of times: if that is soon, they are soon gone for good

    def __init__(self, own: str) -> None:
        self._own = own
        self._shown: States = {}

    def settle(self, states: States) -> None:
        """The reader has all up to now. Where it was shown no state, it has the present one from elsewhere."""
        for space, state in states.items():
            self._shown.setdefault(space, state)

    def __call__(self, news: News) -> bytes:
        event = news.event
        if event.type == "state_patched" and intent_of(event.space) is not None:
            return self._state_changed(news)
        if event.type in MOVES and not self._moves(event):
            return b""
        made: bytes | None = news.forms.get("upper")
        if made is None:
            made = news.forms["upper"] = _upper(event)
        return made

    def _moves(self, event: Event) -> bool:
        """Whether it is for this reader: an agent takes every assignment that it hears of for its own."""
        move = moved(event, self._own)
        if move is not None and not move.joins:
            self._shown.pop(move.space, None)
        return move is not None or not self._own.startswith(AGENT_SPACE)

    def _state_changed(self, news: News) -> bytes:
        event, new = news.event, news.state or {}
        old = self._shown.get(event.space, NO_STATE)
        self._shown[event.space] = new
        known: tuple[object, bytes] | None = news.forms.get("state")
        if known is None or known[0] is not old:  # most readers were last shown the same
            data = {"intent_id": intent_of(event.space), "old_state": old, "new_state": new}
            known = news.forms["state"] = (old, message("STATE_CHANGED", data, event.seq))
        return known[1]

    def open_ones(self, assignments: list[Assignment], cursor: int) -> bytes:
        """Who resumes is not told them again: only with the last of them does the reader have a place to resume by."""
        places = [None] * (len(assignments) - 1) + [cursor]
        return b"".join(map(self._assigned, assignments, places))

    def _assigned(self, assignment: Assignment, seq: int | None) -> bytes:
        named = {"intent_id": assignment.intent_id, "agent_id": assignment.agent_id, "role": assignment.role}
        return message("AGENT_ASSIGNED", {**named, "replayed": True}, seq)

    def closed(self, reason: str, cursor: int) -> bytes:
        return b": closed, %b\nid: %d\n\n" % (reason.encode(), cursor)


Family = Lower | Upper


def _upper(event: Event) -> bytes:
    if event.lease is not None:
        return _lease_released(event)
    make = _UPPER.get(event.type)
    return b"" if make is None else make(event)


def _lease_released(event: Event) -> bytes:
    """However it ended: somebody else may have the scope now."""
    lease = event.lease
    assert lease is not None
    data = {"intent_id": intent_of(home_of(lease.space)), "space": lease.space, "scope": lease.scope}
    return message("LEASE_RELEASED", data, event.seq)


def _agent_assigned(event: Event) -> bytes:
    said = event.payload or {}
    data = {"intent_id": intent_of(event.space), "agent_id": said.get("agent_id"), "role": said.get("role")}
    return message("AGENT_ASSIGNED", data, event.seq)


def _status_changed(event: Event) -> bytes:
    intent_id, portfolio_id = intent_of(event.space), portfolio_of(event.space)
    status = (event.payload or {}).get("new_status")
    data = {"intent_id": intent_id, "new_status": status}
    if portfolio_id is not None:
        data["portfolio_id"] = portfolio_id
    # No INTENT_COMPLETED besides: to agents both are the completion, and they would act on each.
    return message("STATUS_CHANGED", data, event.seq)


_UPPER: Final[dict[str, Callable[[Event], bytes]]] = {
    "agent_assigned": _agent_assigned,
    "status_changed": _status_changed,
}
