"""Errors as people and programs read them: what is wrong, who holds it, what to do.

A version conflict carries no user text at all, and nothing with the letters of "lease" in it: OpenIntent's public
client takes every 409 that contains them for a conflict over a lease.
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from openintent.core import answers
from openintent.server.views import Views
from openintent.wire import ErrorCore, LeaseView, Problem

_encode = msgspec.json.Encoder().encode

HELD_DETAIL = "Lease already held for this scope"


class Refused(Exception):
    """A request that is answered with a problem instead of being carried out."""

    def __init__(self, status: int, problem: Problem, *, extra: bytes = b"") -> None:
        super().__init__(problem.message)
        self.status = status
        self.problem = problem
        self.extra = extra


def encode(problem: Problem) -> bytes:
    return _encode(problem)


def plain(code: str, message: str, *, hint: str | None = None, detail: Any = None, **more: Any) -> Problem:
    core = ErrorCore(code, message, hint)
    return Problem(error=core, detail=message if detail is None else detail, message=message, **more)


def invalid(*faults: tuple[list[str | int], str, str], part: str = "body") -> Refused:
    """422 with all that is wrong in a part of the request: where, what, and a type for programs."""
    detail = [{"loc": [part, *where], "msg": what, "type": kind} for where, what, kind in faults]
    message = "; ".join(f"{'.'.join(map(str, where)) or part}: {what}" for where, what, _ in faults)
    return Refused(422, plain("invalid", message, detail=detail))


def not_offered(field: str, why: str, *, part: str = "body") -> Refused:
    message = f"{field}: {why}"
    detail = [{"loc": [part, field], "msg": why, "type": "not_offered"}]
    return Refused(422, plain("not_offered", message, detail=detail))


def retry_after(seconds: float) -> bytes:
    return b"retry-after: %d\r\n" % max(1, math.ceil(seconds))


def not_found(what: str) -> Problem:
    details = {
        "intent": "Intent not found",
        "lease": "Lease not found or not owned by you",
        "attempt": "No place in a queue and no lease under this attempt",
        "dependency": "The intent does not depend on that one",
        "portfolio": "Portfolio not found",
        "member": "The intent is not in this portfolio",
        "agent": "Agent not found",
        "coordinator": "Coordinator lease not found or not yours",
        "assignment": "The agent is not assigned to this intent",
    }
    return plain("not_found", details[what])


def _held(held: answers.Held, lease: LeaseView) -> Problem:
    scope, holder = lease.scope, lease.agent_id
    left_s = held.remaining_ms / 1_000
    code, message = "lease_held", f"{holder} holds a lease on {scope!r} for {left_s:.1f} s more"
    hint = "wait_seconds takes a place in the queue; or try again after retry_after_seconds"
    if held.yours:
        code, message = "lease_held_by_you", f"you already hold a lease on {scope!r}"
        hint = "reentrant=true gives you the lease that you hold"
    return plain(
        code,
        message,
        hint=hint,
        detail=HELD_DETAIL,
        current_holder=holder,
        existing_lease=lease,
        retry_after_seconds=left_s,
        queue_length=held.queue_length,
    )


def _cooling(cooling: answers.Cooling) -> Problem:
    left_s = cooling.remaining_ms / 1_000
    message = f"{cooling.scope!r} stays closed for {left_s:.1f} s after the lease of {cooling.holder} ended"
    return plain(
        "lease_cooldown",
        message,
        hint="wait_seconds takes a place in the queue",
        detail=HELD_DETAIL,
        retry_after_seconds=left_s,
        queue_length=cooling.queue_length,
    )


def _overtaking(overtaking: answers.Overtaking) -> Problem:
    return plain(
        "lease_held",
        f"{overtaking.first} is first in line for a lease on {overtaking.scope!r}",
        hint="wait_seconds takes a place in the queue",
        detail=HELD_DETAIL,
        current_holder=overtaking.first,
        retry_after_seconds=1.0,
        queue_length=overtaking.queue_length,
    )


def _obstacle(answer: Any, views: Views, now_ms: int) -> Problem:
    if isinstance(answer, answers.Held):
        return _held(answer, views.lease(answer.lease, now_ms=now_ms))
    return _cooling(answer) if isinstance(answer, answers.Cooling) else _overtaking(answer)


def _wait_over(over: answers.WaitOver, views: Views, now_ms: int) -> Problem:
    """What stands in the way, with the place in the queue that is still kept."""
    # No word of how long: whoever waits by several requests has waited for longer than this one.
    place = f"place {over.place} in the queue"
    problem = plain("wait_timeout", f"no lease in time: {place}", detail=HELD_DETAIL)
    if over.why is not None:
        problem = _obstacle(over.why, views, now_ms)
        problem.error.message = problem.message = f"no lease in time: {problem.message}; {place}"
    problem.error.code = "wait_timeout"
    problem.error.hint = "the same Idempotency-Key within 5 s keeps the place"
    problem.ticket, problem.place, problem.waited_seconds = over.ticket, over.place, over.waited_ms / 1_000
    return problem


def _lost(lost: answers.Lost, views: Views, now_ms: int) -> Problem:
    lease = views.lease(lost.lease, now_ms=now_ms)
    note = f" ({lost.lease.ended_note})" if lost.lease.ended_note else ""
    return plain(
        "lease_lost",
        f"the lease on {lease.scope!r} has ended: {lease.ended_reason}{note}",
        hint="an ended lease never lives again; acquire a new one",
        reason=lease.ended_reason,
        ended_at=lease.released_at,
        token=lease.token,
        existing_lease=lease,
    )


def _stale(stale: answers.Stale) -> Problem:
    return plain(
        "stale_token",
        f"token {stale.token} is not that of a live lease of yours here",
        hint="the lease has ended: stop this work, and acquire a new lease before writing again",
        token=stale.token,
        live_token=stale.live_token,
    )


def _conflict(conflict: answers.Conflict) -> Problem:
    return plain("version_conflict", "Version conflict", hint="read it again", current_version=conflict.current_version)


def _limit(limit: answers.LimitReached) -> Problem:
    message = f"the limit of {limit.limit} {limit.what} is reached"
    return plain("limit_reached", message, limit=limit.limit, retry_after_seconds=1.0)


def _exists(_: answers.Exists) -> Problem:
    return plain("already_exists", "this id was created before, with another body")


def _in_use(use: answers.InUse) -> Problem:
    return plain("intent_in_use", f"it cannot be deleted: {use.why}", hint="nothing may refer to it any more")


def _unknown(unknown: answers.Unknown) -> Problem:
    return invalid(([unknown.field], f"there is no intent {unknown.intent_id!r}", "unknown")).problem


def _circular(circular: answers.Circular) -> Problem:
    what = f"{circular.dependency_id!r} already waits for {circular.intent_id!r}, directly or not"
    return invalid((["dependency_id"], what, "circular")).problem


def _violation(violation: answers.Violation) -> Problem:
    detail = {"error": "governance_violation", "rule": violation.rule, "message": violation.message}
    return plain("governance_violation", violation.message, detail=detail)


def _reused(_: answers.AttemptReused) -> Problem:
    return plain("attempt_reused", "this Idempotency-Key was used for another request")


def _too_large(large: answers.TooLarge) -> Problem:
    return plain("state_too_large", f"{large.what}: more than {large.limit} bytes", limit=large.limit)


def _bad_patch(bad: answers.BadPatch) -> Problem:
    return invalid((["patches", bad.index], bad.message, "bad_patch")).problem


_SHOWN: dict[type, tuple[int, Callable[[Any], Problem]]] = {
    answers.Cooling: (409, _cooling),
    answers.Overtaking: (409, _overtaking),
    answers.Conflict: (409, _conflict),
    answers.Exists: (409, _exists),
    answers.InUse: (409, _in_use),
    answers.Unknown: (422, _unknown),
    answers.Circular: (422, _circular),
    answers.Violation: (403, _violation),
    answers.Stale: (409, _stale),
    answers.Missing: (404, lambda missing: not_found(missing.what)),
    answers.AttemptReused: (422, _reused),
    answers.TooLarge: (422, _too_large),
    answers.BadPatch: (422, _bad_patch),
    answers.LimitReached: (429, _limit),
}


def of_answer(answer: Any, views: Views, *, now_ms: int) -> tuple[int, Problem]:
    """The status and the problem of a refusal."""
    if isinstance(answer, answers.Held):
        return 409, _obstacle(answer, views, now_ms)
    if isinstance(answer, answers.WaitOver):
        return 409, _wait_over(answer, views, now_ms)
    if isinstance(answer, answers.Lost):
        return 409, _lost(answer, views, now_ms)
    status, shown = _SHOWN[type(answer)]
    return status, shown(answer)
