"""What can go wrong, sorted by what the caller should do next.

Inside, a refusal is a value; these exceptions exist at the public edge and for failures. Each class owns one HTTP
status, and its docstring is its default message. `BY_CODE` is the one table from wire code to class.

    OpenIntentError
      ConflictError           somebody was faster; look again
        LeaseConflictError      the scope is held
        StaleTokenError         the write names a dead token
      LeaseLost               the lease ended under you
      NotFoundError  ValidationError  AuthenticationError  PermissionError_
      EventsGone              the log has been cut off before the place where you were
      Unavailable             nothing happened; safe to try again
      OutcomeUnknown          it may have happened
      WaitTimeout             your patience ended
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class OpenIntentError(Exception):
    """The request failed."""

    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str | None = None,
        *,
        status_code: int | None = None,
        code: str | None = None,
        response: Mapping[str, Any] | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.status_code = self.status if status_code is None else status_code
        self.code = code
        self.response: Mapping[str, Any] = response or {}
        super().__init__(self.message)


class ConflictError(OpenIntentError):
    """Somebody else was faster."""

    status = 409

    @property
    def current_holder(self) -> str | None:
        """The agent that holds the scope, if that is what the conflict is about."""
        holder = self.response.get("current_holder")
        return holder if isinstance(holder, str) else None

    @property
    def current_version(self) -> int | None:
        version = self.response.get("current_version")
        return version if isinstance(version, int) else None


class LeaseConflictError(ConflictError):
    """The scope is held by another agent."""

    @property
    def existing_lease(self) -> Mapping[str, Any] | None:
        lease = self.response.get("existing_lease")
        return lease if isinstance(lease, Mapping) else None

    @property
    def retry_after(self) -> float | None:
        """Seconds after which trying again makes sense."""
        seconds = self.response.get("retry_after_seconds")
        return float(seconds) if isinstance(seconds, int | float) else None

    @property
    def queue_length(self) -> int:
        length = self.response.get("queue_length")
        return length if isinstance(length, int) else 0


class StaleTokenError(ConflictError):
    """The write names a token that is no longer the live one."""

    @property
    def token(self) -> int | None:
        token = self.response.get("token")
        return token if isinstance(token, int) else None

    @property
    def live_token(self) -> int | None:
        token = self.response.get("live_token")
        return token if isinstance(token, int) else None


class LeaseLost(OpenIntentError):
    """The lease has ended."""

    status = 409

    @property
    def reason(self) -> str | None:
        reason = self.response.get("reason")
        return reason if isinstance(reason, str) else None

    @property
    def token(self) -> int | None:
        token = self.response.get("token")
        return token if isinstance(token, int) else None


class NotFoundError(OpenIntentError):
    """There is no such thing."""

    status = 404


class EventsGone(OpenIntentError):
    """The events after the one that was named are no longer kept."""

    status = 410

    @property
    def oldest(self) -> int | None:
        """The `seq` of the oldest event that there still is."""
        oldest = self.response.get("oldest")
        return oldest if isinstance(oldest, int) else None


class ValidationError(OpenIntentError):
    """The request is not well formed."""

    status = 422

    @property
    def errors(self) -> list[Mapping[str, Any]]:
        """All that is wrong with the request, one entry each: where, what, and a type for programs."""
        detail = self.response.get("detail")
        return list(detail) if isinstance(detail, list) else []


class AuthenticationError(OpenIntentError):
    """Invalid or missing API key."""

    status = 401


class PermissionError_(OpenIntentError):  # noqa: N801  # the builtin has the name without the underscore
    """The key may not do this."""

    status = 403


class Unavailable(OpenIntentError):
    """The server did nothing; it is safe to try again."""

    status = 503

    @property
    def retry_after(self) -> float | None:
        seconds = self.response.get("retry_after_seconds")
        return float(seconds) if isinstance(seconds, int | float) else None


class OutcomeUnknown(OpenIntentError):
    """The request left, but no answer came: it may have happened."""

    status = 504


class WaitTimeout(OpenIntentError, TimeoutError):
    """The scope did not become free in time."""

    status = 409

    @property
    def current_holder(self) -> str | None:
        holder = self.response.get("current_holder")
        return holder if isinstance(holder, str) else None


# Every code that the server sends, with the class that a client raises for it.
BY_CODE: Mapping[str, type[OpenIntentError]] = {
    "version_conflict": ConflictError,
    "already_exists": ConflictError,
    "intent_in_use": ConflictError,
    "lease_held": LeaseConflictError,
    "lease_held_by_you": LeaseConflictError,
    "lease_cooldown": LeaseConflictError,
    "stale_token": StaleTokenError,
    "lease_lost": LeaseLost,
    "wait_timeout": WaitTimeout,
    "not_found": NotFoundError,
    "method_not_allowed": OpenIntentError,
    "bad_request": ValidationError,
    "if_match_required": ValidationError,
    "invalid": ValidationError,
    "not_offered": ValidationError,
    "attempt_reused": ValidationError,
    "body_too_large": ValidationError,
    "state_too_large": ValidationError,
    "unsupported_media_type": ValidationError,
    "headers_too_large": ValidationError,
    "agent_required": ValidationError,
    "unauthenticated": AuthenticationError,
    "forbidden": PermissionError_,
    "governance_violation": PermissionError_,
    "events_gone": EventsGone,
    "limit_reached": Unavailable,
    "overloaded": Unavailable,
    "unavailable": Unavailable,
    "outcome_unknown": OutcomeUnknown,
    "internal": OpenIntentError,
}


class EngineError(Exception):
    """An engine could not do what it was asked."""


class EngineUnavailable(EngineError):
    """The engine did nothing; the same call may succeed later."""


class EngineCorrupt(EngineError):
    """The engine holds something that cannot be right; going on would make it worse."""


class EngineInUse(EngineError):
    """Another process has the engine open."""
