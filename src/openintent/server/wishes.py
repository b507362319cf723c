"""Acquires like those before: fleets ask for one scope after the other, and for the same in all else.

What a body says besides its scope is read and checked once, and known from then on by the bytes around the scope. Only
bodies in which no other text has a place are remembered, so that the scope can be nowhere else.
"""

from typing import Any, Final

import msgspec

from openintent.core.scopes import problem as scope_problem
from openintent.model import Ask, Limits
from openintent.server import bodies, problems
from openintent.wire import AcquireBody

WISHES_MAX: Final = 1_024
WISH_BYTES_MAX: Final = 256

SCOPE: Final = b'"scope":"'  # as most libraries write it, and
SCOPE_SPACED: Final = b'"scope": "'  # as the others do
QUOTE: Final = b'"'
BACKSLASH: Final = b"\\"  # is found sooner than it is asked whether it is in there, which makes an exception first


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What an acquire asks for; what it asks it of, and for whom, is told apart."""

    agent_id: str | None
    ttl_ms: int
    wait_ms: int
    preempt: bool
    priority: int
    reentrant: bool
    purpose: str | None
    metadata: dict[str, Any] | None
    max_hold_ms: int | None
    progress_ms: int | None
    cooldown_ms: int

    def ask(self, space: str, scope: str, holder: str) -> Ask:
        return Ask(
            space,
            scope,
            holder,
            self.ttl_ms,
            self.priority,
            self.reentrant,
            self.purpose,
            self.metadata,
            self.max_hold_ms,
            self.progress_ms,
            self.cooldown_ms,
        )


class Wishes:
    """The bodies of acquires, without their scopes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[tuple[bytes, bytes], Wish] = {}

    def read(self, body: bytes) -> tuple[str, Wish]:
        """The scope, and the rest of what this body says; it is refused if it is malformed."""
        # Without a scope, all of it stands before it.
        before, found, rest = body.partition(SCOPE)
        if not found:
            before, _, rest = body.partition(SCOPE_SPACED)
        scope, _, after = rest.partition(QUOTE)
        around = before, after
        wish = self._known.get(around)
        # What is not plain is for the reader of JSON to judge.
        if wish is None or not scope.isascii() or scope.find(BACKSLASH) >= 0:
            return self._read_anew(body, around)
        name = scope.decode("ascii")
        return (name, wish) if scope_problem(name, self._limits) is None else self._read_anew(body, around)

    def _read_anew(self, raw: bytes, around: tuple[bytes, bytes]) -> tuple[str, Wish]:
        body = bodies.decode(AcquireBody, raw)
        checks = bodies.Checks(self._limits)
        if (wrong := scope_problem(body.scope, self._limits)) is not None:
            checks.fault("scope", wrong)
        wish = _checked(checks, body)
        checks.settle()
        texts = (body.agent_id, body.purpose, body.metadata)
        # With nothing behind it, there is no scope, or it is spelt otherwise: then all of this may stand before one.
        if around[1] and texts == (None, None, None) and raw.find(BACKSLASH) < 0 and len(raw) <= WISH_BYTES_MAX:
            self._remember(around, wish)
        return body.scope, wish

    def _remember(self, around: tuple[bytes, bytes], wish: Wish) -> None:
        if len(self._known) >= WISHES_MAX:
            self._known.clear()
        self._known[around] = wish


def _checked(checks: bodies.Checks, body: AcquireBody) -> Wish:
    limits = checks.limits
    checks.agents(body.agent_id)
    if body.mode != "exclusive":
        _check_mode(checks, body.mode)
    if not -1_000_000 <= body.priority <= 1_000_000:
        checks.fault("priority", "must be from -1000000 to 1000000", "range")
    if body.metadata is not None:
        checks.size("metadata", body.metadata, limits.metadata_bytes_max)
    return Wish(
        agent_id=body.agent_id,
        ttl_ms=checks.ttl_ms(body, limits.ttl_ms_default),
        wait_ms=checks.wait_ms(body.wait_seconds),
        preempt=body.preempt,
        priority=body.priority,
        reentrant=body.reentrant,
        purpose=checks.text("purpose", body.purpose),
        metadata=body.metadata,
        max_hold_ms=_hold_ms(checks, "max_hold_seconds", body.max_hold_seconds),
        progress_ms=_hold_ms(checks, "progress_seconds", body.progress_seconds),
        cooldown_ms=checks.ms(
            "cooldown_seconds", body.cooldown_seconds or 0.0, least_ms=0, most_ms=limits.cooldown_ms_max
        ),
    )


def _hold_ms(checks: bodies.Checks, field: str, seconds: float | None) -> int | None:
    limits = checks.limits
    return None if seconds is None else checks.ms(field, seconds, limits.ttl_ms_min, limits.hold_ms_max)


def _check_mode(checks: bodies.Checks, mode: str) -> None:
    if mode in bodies.MODES_NOT_OFFERED:
        raise problems.not_offered("mode", f"{mode} is not offered yet, only exclusive")
    checks.fault("mode", "must be exclusive")
