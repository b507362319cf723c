"""What came back, and how it is read. A refusal becomes the exception that its code names; nothing is retried here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from openintent.client.values import Event, Heartbeat, Intent, LeaseVerdict, Released
from openintent.errors import (
    BY_CODE,
    AuthenticationError,
    ConflictError,
    NotFoundError,
    OpenIntentError,
    OutcomeUnknown,
    PermissionError_,
    Unavailable,
    ValidationError,
)
from openintent.trust import Trust
from openintent.wire import BatchView, CoordinatorView, LeaseList, LeaseView

T = TypeVar("T")

# For answers that are not ours: a proxy's, a load balancer's, another server's.
BY_STATUS: Final[Mapping[int, type[OpenIntentError]]] = {
    400: ValidationError,
    401: AuthenticationError,
    403: PermissionError_,
    404: NotFoundError,
    409: ConflictError,
    413: ValidationError,
    415: ValidationError,
    422: ValidationError,
    429: Unavailable,
    431: ValidationError,
    503: Unavailable,
}

COORDINATOR_FIELDS: Final = (
    "role",
    "supervisor_id",
    "coordinator_type",
    "guardrails",
    "heartbeat_interval_seconds",
    "metadata",
)


class Reply(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    sent_at: float  # on our boot clock, read before the request left
    retry_after: str | None = None  # the header
    next_offset: str | None = None  # the header, of lists that are bare


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list; `next` asks for the part after it, if there is one."""

    items: list[T]
    next: str | None = None


class Seen(msgspec.Struct, frozen=True):
    """A lease as one reply showed it, and until when that may be relied on."""

    view: LeaseView
    trust: Trust
    timeline: tuple[Event, ...] = ()

    @property
    def ttl_s(self) -> float:
        """The longest that can be promised at once: no more than the lease may be held, or be without progress."""
        bounds = (self.view.ttl_seconds, self.view.max_hold_seconds, self.view.progress_seconds)
        return min(bound for bound in bounds if bound is not None)


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat, with the moment at which it was sent."""

    sent_at: float
    heartbeat: Heartbeat

    def trust(self, verdict: LeaseVerdict) -> Trust:
        return Trust(sent_at=self.sent_at, waited_s=0.0, remaining_s=verdict.remaining_seconds)


class _IntentList(msgspec.Struct):
    intents: list[Intent]
    next: str | None = None


class _Story(LeaseView):
    timeline: list[Event] = msgspec.field(default_factory=list)


# Reading


def read(reply: Reply, kind: type[T]) -> T:
    """The body of a success as `kind`; raises what a refusal means."""
    refuse_refusals(reply)
    hashed: Any = kind
    try:
        found: T = _decoder(hashed).decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        message = f"the server's answer is not understood: {exc}"
        raise OpenIntentError(message, status_code=reply.status, code="bad_answer") from exc
    return found


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def refuse_refusals(reply: Reply) -> None:
    if not 200 <= reply.status < 300:
        raise problem(reply)


def nothing(reply: Reply) -> None:
    refuse_refusals(reply)


def reading(kind: type[T]) -> Callable[[Reply], T]:
    """How an answer that is one such value is read."""
    return partial(read, kind=kind)


def page(kind: type[T]) -> Callable[[Reply], Page[T]]:
    """How a bare list is read, whose next part is named in a header."""
    return lambda reply: Page(read(reply, list[kind]), reply.next_offset)  # type: ignore[valid-type]


def listing(kind: type[T], name: str) -> Callable[[Reply], list[T]]:
    """How a list is read that the answer has under a name."""
    hashed: Any = kind
    return lambda reply: list(getattr(read(reply, _shape(hashed, name)), name))


@cache
def _shape(kind: Any, name: str) -> type[msgspec.Struct]:
    return msgspec.defstruct("Listing", [(name, list[kind])])


def intent(reply: Reply) -> Intent:
    return read(reply, Intent)


def intents(reply: Reply) -> Page[Intent]:
    told = read(reply, _IntentList)
    return Page(told.intents, told.next)


def released(reply: Reply) -> Released:
    return read(reply, Released)


def events(size: int) -> Callable[[Reply], Page[Event]]:
    """How one page of a log is read: a full one may have another after it."""

    def parse(reply: Reply) -> Page[Event]:
        found = read(reply, list[Event])
        return Page(found, str(found[-1].seq) if len(found) >= size else None)

    return parse


# Batches


def each(readers: Sequence[Callable[[Reply], T]], reply: Reply) -> list[T | OpenIntentError]:
    """The answers in a batch, each read as it would be by itself. What that would raise stands in its place."""
    answers = read(reply, BatchView).answers
    if len(answers) != len(readers):
        message = f"the server's answer is not understood: {len(answers)} answers to {len(readers)} requests"
        raise OpenIntentError(message, status_code=reply.status, code="bad_answer")
    told = [Reply(answer.status, bytes(answer.body), reply.sent_at) for answer in answers]
    return [_read_part(reader, part) for reader, part in zip(readers, told, strict=True)]


def _read_part(reader: Callable[[Reply], T], part: Reply) -> T | OpenIntentError:
    try:
        return reader(part)
    except OpenIntentError as exc:
        return exc


# Leases


def granted(reply: Reply) -> Seen:
    """The answer to an acquire: its time runs from when the server stopped making us wait."""
    view = read(reply, LeaseView)
    trust = Trust(sent_at=reply.sent_at, waited_s=view.waited_seconds, remaining_s=view.remaining_seconds)
    return Seen(view, trust)


def lease(reply: Reply) -> Seen:
    return _seen(read(reply, LeaseView), reply)


def lease_story(reply: Reply) -> Seen:
    story = read(reply, _Story)
    return Seen(story, _trust(story, reply), tuple(story.timeline))


def leases(reply: Reply) -> Page[Seen]:
    told = read(reply, LeaseList)
    return Page([_seen(view, reply) for view in told.leases], told.next)


def appointed(reply: Reply) -> Seen:
    """`granted`, for a coordinator."""
    view = read(reply, CoordinatorView)
    trust = Trust(sent_at=reply.sent_at, waited_s=view.waited_seconds, remaining_s=view.remaining_seconds)
    return Seen(lease_of_coordinator(view), trust)


def coordinator(reply: Reply) -> Seen:
    return _seen(lease_of_coordinator(read(reply, CoordinatorView)), reply)


def coordinators(reply: Reply) -> list[Seen]:
    return [_seen(lease_of_coordinator(view), reply) for view in read(reply, list[CoordinatorView])]


def lease_of_coordinator(view: CoordinatorView) -> LeaseView:
    """The same lease as the paths of leases show it: what it says of itself is their metadata."""
    said = {name: getattr(view, name) for name in COORDINATOR_FIELDS}
    return LeaseView(
        id=view.id,
        intent_id=None,
        space=view.space,
        agent_id=view.agent_id,
        scope="*",
        mode="exclusive",
        status=_lease_status(view),
        token=view.token,
        ttl_seconds=view.ttl_seconds,
        remaining_seconds=view.remaining_seconds,
        expires_at=view.expires_at,
        acquired_at=view.granted_at,
        created_at=view.granted_at,
        ended_reason=view.ended_reason,
        waited_seconds=view.waited_seconds,
        metadata=said,
    )


def _lease_status(view: CoordinatorView) -> str:
    """`failed_over` is OpenIntent's one word for two ways of ending."""
    if view.status == "failed_over":
        return "revoked" if view.ended_reason == "revoked" else "expired"
    return "released" if view.status == "completed" else view.status


def beat(reply: Reply) -> Beat:
    return Beat(reply.sent_at, read(reply, Heartbeat))


def _seen(view: LeaseView, reply: Reply) -> Seen:
    return Seen(view, _trust(view, reply))


def _trust(view: LeaseView, reply: Reply) -> Trust:
    # Only an acquire waits. Elsewhere `waited_seconds` would tell of another request, and stretch this one's trust.
    return Trust(sent_at=reply.sent_at, waited_s=0.0, remaining_s=view.remaining_seconds)


# Refusals


def problem(reply: Reply) -> OpenIntentError:
    body = _as_mapping(reply.body)
    error = body.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    code = code if isinstance(code, str) else None
    kind = BY_CODE.get(code or "") or BY_STATUS.get(reply.status) or _by_kind(reply.status)
    response = _with_retry_after(body, reply.retry_after)
    return kind(_message(body, reply.status), status_code=reply.status, code=code, response=response)


def _by_kind(status: int) -> type[OpenIntentError]:
    """A failure on the way, by whatever number its maker has for it, leaves open what happened behind it."""
    return OutcomeUnknown if status >= 500 or status == 408 else OpenIntentError


def _as_mapping(body: bytes) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _message(body: Mapping[str, Any], status: int) -> str:
    error = body.get("error")
    told = error.get("message") if isinstance(error, Mapping) else None
    message = told or body.get("message") or body.get("detail")
    return message if isinstance(message, str) else f"the server answered {status}"


def _with_retry_after(body: Mapping[str, Any], header: str | None) -> Mapping[str, Any]:
    """The body has the exact number; a proxy in between has only the header."""
    if header is None or "retry_after_seconds" in body or not header.isdecimal():
        return body
    return {**body, "retry_after_seconds": float(header)}
