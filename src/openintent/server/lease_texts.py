"""Leases as JSON, written in one go.

Most answers are a lease of which little is special. To make a `LeaseView` of it and to encode that takes twice as long
as to fill the gaps in a text; so these are written here, to the byte as the view would be.
"""

from json.encoder import encode_basestring as quoted
from typing import Final

import msgspec

from openintent.model import Lease
from openintent.server.memo import Memo
from openintent.server.views import Views
from openintent.spaces import intent_of
from openintent.wire import LeaseView

SPACES_KEPT_MAX: Final = 10_000
SECONDS_KEPT_MAX: Final = 10_000

_encode = msgspec.json.Encoder().encode


def _nothing_special() -> str:
    """What the view of a live lease ends with, if all of that is as usual."""
    usual = LeaseView("", None, "", "", "", "", "", 0, 0, 0, "", "", "")
    _, first, rest = _encode(usual).decode().partition('"released_at"')
    return first + rest


NOTHING_SPECIAL: Final = _nothing_special()


class LeaseTexts:
    __slots__ = ("_seconds", "_spaces", "_views")

    def __init__(self, views: Views) -> None:
        self._views = views
        self._spaces = Memo(_space_text, SPACES_KEPT_MAX)
        self._seconds = Memo(_seconds_text, SECONDS_KEPT_MAX)

    def lease(self, lease: Lease, remaining_ms: int, waited_ms: int = 0) -> bytes:
        """A lease for whoever was told how much of it is left."""
        if (
            waited_ms
            or lease.cooldown_ms
            or lease.metadata is not None
            or lease.purpose is not None
            or lease.checkpoint is not None
            or lease.max_hold_ms is not None
            or lease.progress_ms is not None
            or lease.preempt_reason is not None
            or lease.ended_at_ms is not None
        ):
            return _encode(self._views.lease_with(lease, remaining_ms, waited_ms))
        dates, seconds = self._views.dates, self._seconds
        granted = dates.any(lease.granted_at_ms)
        return (
            f'{{"id":"{lease.id}",{self._spaces[lease.space]},"agent_id":{quoted(lease.holder)},'
            f'"scope":{quoted(lease.scope)},"mode":"exclusive","status":"active","token":{lease.token},'
            f'"ttl_seconds":{seconds[lease.ttl_ms]},"remaining_seconds":{seconds[remaining_ms]},'
            f'"expires_at":"{dates.recent[lease.deadline_ms + self._views.calendar.date_offset_ms]}",'
            f'"acquired_at":"{granted}","created_at":"{granted}",{NOTHING_SPECIAL}'
        ).encode()


def released(lease: Lease) -> bytes:
    """A `ReleasedView` of one that has ended, and so has a reason: all of it is in our own words."""
    ended = f'"status":"{lease.status}","ended_reason":"{lease.ended_reason}"'
    return f'{{"message":"Lease released","id":"{lease.id}",{ended}}}'.encode()


def _space_text(space: str) -> str:
    intent = intent_of(space)
    return f'"intent_id":{"null" if intent is None else quoted(intent)},"space":{quoted(space)}'


def _seconds_text(ms: int) -> str:
    return f"{ms / 1_000}"
