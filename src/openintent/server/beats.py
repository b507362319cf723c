"""Heartbeats and renewals like those before.

An agent names the same leases with every heartbeat, to the byte, until it takes or loses one, and then it is told the
same. What was read once need not be read again, nor what was told be written again. Each lease is still looked at each
time: nothing is known here of what lives.
"""

from typing import Any, Final

import msgspec

from openintent.core.answers import Verdicts
from openintent.model import Limits
from openintent.server import bodies
from openintent.wire import HeartbeatBody, RenewBody, Verdict

BEATS_BYTES_MAX: Final = 256 * 1024 * 1024  # for some 700,000 leases. About what they take in memory: each so many,
BEAT_BYTES: Final = 600
BYTES_PER_BODY_BYTE: Final = 7  # and for each byte of its body as many more

RENEWALS_MAX: Final = 1_024
RENEWAL_BYTES_MAX: Final = 64

_encode: Final = msgspec.json.Encoder().encode


class Beat:
    """What a heartbeat says, and what it was told last."""

    __slots__ = ("_asked", "_left_ms", "_lost", "_told", "body", "held", "load")

    def __init__(self, body: bytes, held: tuple[tuple[str, int], ...], load: int | None) -> None:
        self.body = body
        self.held = held
        self.load = load
        self._left_ms: list[int] = []
        self._lost: dict[int, str] = {}
        self._asked: dict[int, str] = {}
        self._told = msgspec.Raw(b"[]")

    def told(self, verdicts: Verdicts) -> Any:
        """The verdicts as they are sent: bytes, which stand for a list of them."""
        left_ms, lost, asked = verdicts.left_ms, verdicts.lost, verdicts.asked
        if left_ms != self._left_ms or lost != self._lost or asked != self._asked:
            self._left_ms, self._lost, self._asked = left_ms, lost, asked
            self._told = msgspec.Raw(_encode(_shown(verdicts)))
        return self._told


def _shown(verdicts: Verdicts) -> list[Verdict]:
    listed = zip(verdicts.held, verdicts.left_ms, strict=True)
    shown = [Verdict(lease_id, "renewed", left_ms / 1_000) for (lease_id, _), left_ms in listed]
    for place, reason in verdicts.lost.items():
        shown[place] = Verdict(verdicts.held[place][0], "lost", 0.0, reason)
    for place, reason in verdicts.asked.items():
        shown[place].verdict, shown[place].reason = "preempt_asked", reason
    return shown


class Beats:
    """The last heartbeat of each agent."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: dict[str, Beat] = {}
        self._bytes = 0

    def read(self, agent_id: str, body: bytes) -> Beat:
        """What this body says; it is refused if it is malformed."""
        beat = self._last.get(agent_id)
        if beat is None or beat.body != body:
            beat = _read(body, self._limits)
            self._remember(agent_id, beat)
        return beat

    def _remember(self, agent_id: str, beat: Beat) -> None:
        before = self._last.pop(agent_id, None)
        self._bytes += _weight(beat) - (0 if before is None else _weight(before))
        if self._bytes > BEATS_BYTES_MAX:
            self._last.clear()
            self._bytes = _weight(beat)
        self._last[agent_id] = beat


class Renewals:
    """The bodies of renewals. They say no more than a ttl, and of those there are few."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[bytes, int | None] = {}

    def read(self, body: bytes) -> int | None:
        """The ttl that it asks for, None for that of before; it is refused if it is malformed."""
        try:
            return self._known[body]
        except KeyError:
            return self._read_anew(body)

    def _read_anew(self, body: bytes) -> int | None:
        checks = bodies.Checks(self._limits)
        ttl_ms = checks.ttl_ms(bodies.decode(RenewBody, body), 0) or None
        checks.settle()
        if len(self._known) >= RENEWALS_MAX:
            self._known.clear()
        if len(body) <= RENEWAL_BYTES_MAX:
            self._known[body] = ttl_ms
        return ttl_ms


def _weight(beat: Beat) -> int:
    return BEAT_BYTES + BYTES_PER_BODY_BYTE * len(beat.body)


def _read(raw: bytes, limits: Limits) -> Beat:
    body = bodies.decode(HeartbeatBody, raw)
    held = body.leases or []
    checks = bodies.Checks(limits)
    if len(held) > limits.leases_per_heartbeat_max:
        checks.fault("leases", f"must be at most {limits.leases_per_heartbeat_max}", "size")
    checks.settle()
    load, tasks = body.current_load, body.tasks_in_progress
    if load is None and tasks is not None:
        load = tasks if isinstance(tasks, int) else len(tasks)
    return Beat(raw, tuple([(lease.id, lease.token) for lease in held]), load)
