"""What may stand after the question mark, one shape for each kind of list."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

PAGE_MAX: Final = 1_000
SEQ_MAX: Final = 1 << 60

PageSize = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
Offset = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Place = Annotated[int, Meta(ge=0, le=SEQ_MAX)]  # an event's number, or a token


class PageQuery(msgspec.Struct, frozen=True):
    limit: PageSize = PAGE_MAX
    offset: Offset = 0


class IntentsQuery(msgspec.Struct, frozen=True):
    status: Literal["draft", "active", "blocked", "suspended_awaiting_input", "completed", "abandoned"] | None = None
    limit: PageSize = 100
    offset: Offset = 0
    after: Offset = 0  # the `next` of the page before: another name for offset


class LeasesQuery(msgspec.Struct, frozen=True):
    status: Literal["active", "all"] = "active"
    scope: str | None = None
    agent_id: str | None = None
    limit: PageSize = PAGE_MAX
    after: Place = 0  # the `next` of the page before


class AllLeasesQuery(LeasesQuery, frozen=True):
    space: str | None = None


class QueueQuery(msgspec.Struct, frozen=True):
    scope: str | None = None


class AttemptQuery(msgspec.Struct, frozen=True):
    attempt: str | None = None


class EventsQuery(msgspec.Struct, frozen=True):
    limit: PageSize = 100
    after: Place = 0
    order: Literal["asc", "desc"] = "desc"
    types: str | None = None  # several with commas between them
    event_type: str | None = None


class StreamQuery(msgspec.Struct, frozen=True):
    after: Place | None = None  # the last event that the reader has; 0 for all that is kept, and none for only new ones


class PortfoliosQuery(msgspec.Struct, frozen=True):
    created_by: str | None = None
    limit: PageSize = 100
    offset: Offset = 0


class AgentsQuery(msgspec.Struct, frozen=True):
    status: Literal["active", "unhealthy", "dead", "draining", "deregistered"] | None = None
    role_id: str | None = None
    limit: PageSize = PAGE_MAX
    offset: Offset = 0
