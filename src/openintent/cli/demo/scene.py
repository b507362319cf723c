"""What has happened in the demo: a story to read, a sum, and whether the promises were kept. No clock, no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from openintent.client.values import Event

Kind = Literal["killed", "hung"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the story. `mood` is good, bad or plain."""

    at_s: float
    text: str
    mood: str = "plain"


@dataclass(frozen=True, slots=True)
class Grant:
    holder: str
    token: int


@dataclass(slots=True)
class Accident:
    """What happened to a holder, and what became of its scope."""

    kind: Kind
    holder: str
    scope: str
    token: int
    lease_id: str
    at: datetime
    expires_at: datetime  # as the server said last; nobody renews it any more
    successor: Grant | None = None
    taken_at: datetime | None = None
    refused: bool | None = None  # whether its late write was; None if it has not tried
    live_token: int | None = None

    @property
    def after_s(self) -> float | None:
        """From the accident to the next grant."""
        return None if self.taken_at is None else (self.taken_at - self.at).total_seconds()

    @property
    def after_ttl_ms(self) -> float | None:
        """Dates of the server, in whole milliseconds: one more or less means nothing."""
        if self.taken_at is None:
            return None
        return max(0.0, (self.taken_at - self.expires_at).total_seconds() * 1_000)

    @property
    def how_late(self) -> str:
        late_ms = self.after_ttl_ms or 0.0
        return f"{late_ms:.0f} ms" if late_ms >= 1 else "less than 1 ms"


@dataclass(slots=True)
class Scene:
    began_at: datetime
    lines: list[Line] = field(default_factory=list)
    accidents: list[Accident] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # promises
    grants: int = 0
    hand_overs: int = 0
    lapsed: int = 0  # of the hand-overs
    seq: int = 0  # of the newest event
    token_first: int = 0
    token: int = 0  # the newest
    _holders: dict[str, Grant] = field(default_factory=dict)
    _before: dict[str, tuple[Grant, str]] = field(default_factory=dict)  # who had a scope last, and how it ended

    def hear(self, events: Sequence[Event]) -> None:
        for event in events:
            self.seq = event.seq
            if event.event_type == "lease_acquired":
                self._granted(event, event.payload)
            elif event.event_type == "lease_released":
                self._ended(event.payload)

    def tell(self, at: datetime, text: str, mood: str = "plain") -> None:
        self.lines.append(Line((at - self.began_at).total_seconds(), text, mood))

    def strike(self, accident: Accident) -> None:
        self.accidents.append(accident)
        what = "is killed with kill -9" if accident.kind == "killed" else "hangs: its process is frozen"
        self.tell(accident.at, f"{accident.holder} {what}, in the middle of {accident.scope}", "bad")

    def of_kind(self, kind: Kind) -> Accident | None:
        return next((accident for accident in self.accidents if accident.kind == kind), None)

    def late_write(self, at: datetime, said: dict[str, Any]) -> None:
        """An agent tells what came of a write with a token that had died."""
        accident = self.of_kind("hung")
        if accident is None or said["token"] != accident.token:
            return
        accident.refused, accident.live_token = said["state"] == "refused", said.get("live_token")
        if not accident.refused:
            self.broken.append(f"a write with the dead token {accident.token} was taken")
        live = f"the live one is {accident.live_token}" if accident.live_token else "it is dead"
        late = f"{accident.holder} wakes up and writes with token {accident.token}"
        self.tell(
            at, f"{late}: {f'refused, {live}' if accident.refused else 'taken!'}", "good" if accident.refused else "bad"
        )

    # The events of the server

    def _granted(self, event: Event, told: dict[str, Any]) -> None:
        scope, grant = told["scope"], Grant(told["holder"], told["token"])
        if scope in self._holders:
            self.broken.append(f"{scope} was granted to {grant.holder} while {self._holders[scope].holder} had it")
        if grant.token <= self.token:
            self.broken.append(f"token {grant.token} was granted after {self.token}")
        self.grants += 1
        self.token, self.token_first = grant.token, self.token_first or grant.token
        self._holders[scope] = grant
        before, reason = self._before.get(scope, (None, ""))
        handed_over = before is not None and before.holder != grant.holder
        self.hand_overs += handed_over
        self.lapsed += handed_over and reason == "expired"
        accident = next((one for one in self.accidents if before is not None and one.token == before.token), None)
        if accident is not None:
            accident.successor, accident.taken_at = grant, event.created_at
        self.tell(event.created_at, *_grant_line(scope, grant, before, reason, accident))

    def _ended(self, told: dict[str, Any]) -> None:
        ended = self._holders.pop(told["scope"], None)
        if ended is None or ended.token != told["token"]:
            self.broken.append(f"{told['scope']} ended with token {told['token']}, which nobody had")
            return
        self._before[told["scope"]] = (ended, told["reason"])


def _grant_line(
    scope: str, grant: Grant, before: Grant | None, reason: str, accident: Accident | None
) -> tuple[str, str]:
    token = f"token {grant.token}"
    if accident is not None:
        late = f"{accident.how_late} after the ttl of {accident.holder}"
        return f"{scope}: {grant.holder} takes over, {token}, {late}", "good"
    if before is None:
        return f"{scope}: {grant.holder} has it, {token}", "plain"
    gave = "gave it back" if reason == "released" else f"lost it ({reason})"
    return f"{scope}: {before.holder} {gave}, {grant.holder} has it now, {token}", "plain"
