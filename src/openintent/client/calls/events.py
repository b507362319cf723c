"""The log of a space: written to, read, and listened to."""

from collections.abc import Sequence

from openintent.client import replies
from openintent.client.calls.base import JSON, Call, headers, query, space_path
from openintent.client.replies import Page
from openintent.client.values import Event


def log_event(space: str, body: JSON, *, attempt: str) -> Call[Event]:
    return Call("POST", f"{space_path(space)}/events", replies.reading(Event), body, headers(attempt=attempt))


def get_events(
    space: str, *, limit: int | None, after: int | None, types: Sequence[str] | None, order: str | None
) -> Call[list[Event]]:
    named = ",".join(types) if types else None
    asked = query(limit=limit, after=after, types=named, order=order)
    return Call("GET", f"{space_path(space)}/events{asked}", replies.reading(list[Event]))


def get_event_page(space: str, *, after: int, types: Sequence[str] | None, size: int) -> Call[Page[Event]]:
    """The oldest first."""
    call = get_events(space, limit=size, after=after, types=types, order="asc")
    return Call("GET", call.path, replies.events(size))


def listen(space: str, *, after: int | None, silence_s: float) -> Call[None]:
    """An answer without an end. `silence_s` without a byte of it means that nobody is there any more."""
    sent = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    if after:
        sent["Last-Event-ID"] = str(after)
    # As a number of the last event, 0 would mean that not one may be missing.
    asked = query(after=0) if after == 0 else ""
    return Call("GET", f"/subscribe{space_path(space)}{asked}", replies.nothing, headers=sent, timeout_s=silence_s)
