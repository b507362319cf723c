"""The record of an assignment: what is durably known of it. Pure.

It stands in the state of the intent, under `_assignments` and the name that the assignment is addressed to, and is
written under the token of the assignment's lease. So whoever lost the lease can no longer change it; and because the
result of a handler and the word "done" are one patch, an assignment has its effect once or not at all.

Who begins and finds `running` knows that the one before died or lost the lease: it lapsed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from openintent.retrying import Retry

KEY: Final = "_assignments"
# The history that a person is shown when an assignment is parked; an older failure tells nothing new.
FAILURES_KEPT_MAX: Final = 20
MESSAGE_CHARS_MAX: Final = 500
LAPSED: Final = "LeaseLapsed"

Status = Literal["open", "running", "done", "failed", "parked"]
OVER: Final = frozenset({"done", "failed", "parked"})


class BadRecord(ValueError):
    """Somebody wrote something into the state that is no record."""


class Leasing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A second lease that the work needs besides the assignment's own: on a scope that it shares with other work."""

    scope: str
    ttl: float = 60.0
    intent_id: str = ""  # where the scope is


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    attempt: int
    error: str
    message: str = ""
    holder: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    status: Status = "open"
    assigned_at: str = ""  # of the assignment that it is about: one that is made anew begins anew
    attempt: int = 0
    failed: int = 0
    holder: str = ""
    token: int = 0
    retry_in_seconds: float = 0.0
    failures: tuple[Failure, ...] = ()
    # What whoever assigned it wants; without a word from them, the agent's own settings count.
    retry: Retry | None = None
    parks: bool = True  # when no attempt is left a person is to look at it; else it has just failed
    completes: bool | None = None  # the intent with it
    leasing: Leasing | None = None
    from_agent: str = ""
    payload: Any = None

    @property
    def over(self) -> bool:
        return self.status in OVER

    @property
    def last_failure(self) -> Failure | None:
        return self.failures[-1] if self.failures else None


# Where it stands


def path(name: str) -> str:
    return f"{KEY}/{name.replace('~', '~0').replace('/', '~1')}"


def read(state: Mapping[str, Any], name: str) -> Record:
    """What is known of the assignment to this name; nothing yet is a record too."""
    records = state.get(KEY, {})
    return of_value(records.get(name, {}) if isinstance(records, Mapping) else records, name)


def of_value(written: Any, name: str) -> Record:
    """The record that somebody wrote, for this name."""
    try:
        return msgspec.convert(written, Record)
    except msgspec.ValidationError as wrong:
        raise BadRecord(f"the state has no record of an assignment at {path(name)}: {wrong}") from None


def patch(name: str, record: Record) -> dict[str, Any]:
    return {"op": "set", "path": path(name), "value": msgspec.to_builtins(record)}


def besides(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is no record. Who writes back a state that was read before would write the records as they were then."""
    return {key: value for key, value in changes.items() if key != KEY}


# What becomes of it


def begin(record: Record, *, assigned_at: str, holder: str, token: int, default: Retry) -> Record | None:
    """The record of whoever has just got the lease: to run if it is `running`. None if there is nothing to do."""
    if record.assigned_at not in ("", assigned_at):
        record = replace(record, status="open", attempt=0, failed=0, failures=())
    if record.over:
        return None
    if record.status == "running":
        record = _lapse(record, record.retry or default)
        if record.over:
            return record
    return replace(
        record,
        status="running",
        assigned_at=assigned_at,
        attempt=record.attempt + 1,
        holder=holder,
        token=token,
        retry_in_seconds=0.0,
    )


def put_off_s(record: Record, *, assigned_at: str, waited_for: int) -> float:
    """How long one has yet to wait who has waited after so many failures; an agent may have started since."""
    waits = record.status == "open" and record.assigned_at == assigned_at and record.failed != waited_for
    return record.retry_in_seconds if waits else 0.0


def succeed(record: Record) -> Record:
    return replace(record, status="done", retry_in_seconds=0.0)


def fail(record: Record, errors: Sequence[str], message: str, *, default: Retry, chance: float) -> Record:
    """The handler raised; `errors` are the names of what it raised, the most exact first."""
    policy, failed = record.retry or default, record.failed + 1
    record = _failed(record, errors[0], message, again=policy.allows(failed, errors))
    if record.over:
        return record
    return replace(record, retry_in_seconds=round(policy.delay_s(failed, chance=chance), 3))


def put_back(record: Record) -> Record:
    """Its holder was asked to stop. That is nobody's failure, and the next one goes on at once."""
    return replace(record, status="open", retry_in_seconds=0.0)


def _lapse(record: Record, policy: Retry) -> Record:
    # That an agent died says nothing of the work: which errors are worth another try does not matter here.
    message = f"{record.holder} had the lease with token {record.token} and did not end its work"
    return _failed(record, LAPSED, message, again=record.failed + 1 < policy.max_attempts)


def _failed(record: Record, error: str, message: str, *, again: bool) -> Record:
    # What a handler says need not be text that can be sent.
    said = message[:MESSAGE_CHARS_MAX].encode(errors="replace").decode()
    failure = Failure(attempt=record.attempt, error=error, message=said, holder=record.holder)
    return replace(
        record,
        status="open" if again else "parked" if record.parks else "failed",
        failed=record.failed + 1,
        failures=(*record.failures, failure)[-FAILURES_KEPT_MAX:],
    )
