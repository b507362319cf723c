"""What was seen, as it was seen: replies, beliefs, and how often rare things happened."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from openintent.client.calls import Call


@dataclass
class Belief:
    """A span in which a client believes that it holds a scope, in true time."""

    client: str
    scope: str
    token: int
    since: float
    until: float  # when its trust ends, if nothing ends it before
    ended: bool = False

    def extend(self, until: float) -> None:
        if not self.ended:
            self.until = max(self.until, until)

    def end(self, now: float) -> None:
        if not self.ended:
            self.until, self.ended = min(self.until, now), True


@dataclass(frozen=True)
class Heard:
    """A reply that reached its client."""

    client: str
    method: str
    path: str
    attempt: str | None
    status: int
    body: dict[str, Any]
    term: int
    rev: int
    sent: float
    heard: float


@dataclass
class History:
    heard: list[Heard] = field(default_factory=list)
    beliefs: list[Belief] = field(default_factory=list)
    situations: Counter[str] = field(default_factory=Counter)

    def begin_belief(self, client: str, scope: str, token: int, until: float) -> Belief:
        belief = Belief(client, scope, token, self.now(), until)
        self.beliefs.append(belief)
        return belief

    def now(self) -> float:
        raise NotImplementedError

    def count(self, situation: str, times: int = 1) -> None:
        self.situations[situation] += times

    def reply(
        self, client: str, call: Call[Any], status: int, body: bytes, headers: dict[str, str], sent: float, heard: float
    ) -> None:
        self.heard.append(
            Heard(
                client=client,
                method=call.method,
                path=call.path,
                attempt=call.headers.get("Idempotency-Key"),
                status=status,
                body=msgspec.json.decode(body),
                term=int(headers.get("x-term", 0)),
                rev=int(headers.get("x-rev", 0)),
                sent=sent,
                heard=heard,
            )
        )

    def digest(self) -> str:
        """The same for the same seed, in every process. Dates are left out: they are the wall clock's."""
        lines = [
            f"{h.client} {h.method} {h.path} {h.status} {h.term} {h.rev} {h.sent:.9f} {h.heard:.9f}" for h in self.heard
        ]
        lines += [f"{b.client} {b.scope} {b.token} {b.since:.9f} {b.until:.9f}" for b in self.beliefs]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
