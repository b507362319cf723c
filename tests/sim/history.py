"""What was seen, as it was seen: calls and their ends, beliefs, faults, and how often rare things happened.

Nothing here knows the product's rules: what scopes overlap is said a second time, so that a mistake there is seen.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import msgspec

from openintent.client.calls import Call


@cache
def overlap(one: str, other: str) -> bool:
    """Whether two scopes have anything in common."""
    return _within(one, other) or _within(other, one)


def _within(narrow: str, wide: str) -> bool:
    if wide in {"*", "**", narrow}:
        return True
    stem = wide.removesuffix("/**")
    return stem != wide and (narrow.removesuffix("/**") == stem or narrow.startswith(f"{stem}/"))


@dataclass(slots=True)
class Belief:
    """A span in which a client may act as the holder of a scope, in true time."""

    client: str
    scope: str
    token: int
    since: float
    until: float  # when its trust ends, if nothing ends it before
    ended: bool = False

    def extend(self, until: float) -> None:
        """Also after its end: a hold that says so although it was over is what the judge looks for."""
        self.until = max(self.until, until)

    def act(self, now: float) -> None:
        """It looked, and was told that it may."""
        self.until = max(self.until, now)

    def end(self, now: float) -> None:
        if not self.ended:
            self.until, self.ended = min(self.until, now), True


@dataclass(slots=True)
class Heard:
    """A request, and the reply to it if one reached its sender."""

    client: str
    life: int
    method: str
    path: str
    attempt: str | None
    sent: float
    heard: float | None = None
    status: int = 0
    body: Any = None
    term: int = 0
    rev: int = 0
    copies: int = 1  # that the network made of the request


@dataclass(slots=True)
class Deed:
    """What a client set out to do, however many requests it took: an operation for the search of an order."""

    client: str
    kind: str  # acquire, renew, release
    scope: str
    since: float
    attempt: str
    ttl_s: float
    until: float | None = None
    outcome: str = "unknown"  # ok, no, lost, unknown
    token: int | None = None


@dataclass
class History:
    now: Callable[[], float]
    requests: list[Heard] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    beliefs: list[Belief] = field(default_factory=list)
    counted: dict[str, str] = field(default_factory=dict)  # by attempt to count: ok, no or unknown
    told: list[tuple[float, str]] = field(default_factory=list)  # if anybody wants to read it
    telling: bool = False
    situations: Counter[str] = field(default_factory=Counter)
    quiet_at: float = 0.0
    probe: str = ""  # what became of an acquire of everything in the quiet phase

    def begin_belief(self, client: str, scope: str, token: int, until: float) -> Belief:
        belief = Belief(client, scope, token, self.now(), until)
        self.beliefs.append(belief)
        self.tell("{} holds {}, token {}, until {:.3f}", client, scope, token, until)
        return belief

    def count(self, situation: str, times: int = 1) -> None:
        self.situations[situation] += times

    def tell(self, what: str, *details: object) -> None:
        """A line of the story; it is put together only if there is one."""
        if self.telling:
            self.told.append((self.now(), what.format(*details)))

    @cached_property
    def heard(self) -> list[Heard]:
        """The replies, in the order in which they were heard. To be asked for at the end."""
        return sorted((each for each in self.requests if each.heard is not None), key=lambda each: each.heard or 0.0)

    def send(self, client: str, life: int, call: Call[Any], sent: float) -> Heard:
        heard = Heard(client, life, call.method, call.path, call.headers.get("Idempotency-Key"), sent)
        self.requests.append(heard)
        return heard

    def copies(self, attempt: str) -> int:
        """How many requests of this attempt were ever on their way."""
        return sum(each.copies for each in self.requests if each.attempt == attempt)

    def hear(self, heard: Heard, status: int, body: bytes, headers: dict[str, str]) -> None:
        heard.heard, heard.status = self.now(), status
        heard.body = msgspec.json.decode(body) if body else {}
        heard.term, heard.rev = int(headers.get("x-term", 0)), int(headers.get("x-rev", 0))

    def digest(self) -> str:
        """The same for the same seed, in every process. Dates are left out: they are the wall clock's."""
        lines = [f"{h.client} {h.method} {h.path} {h.status} {h.term} {h.rev} {h.sent:.9f}" for h in self.requests]
        lines += [f"{h.heard:.9f}" for h in self.heard]
        lines += [f"{b.client} {b.scope} {b.token} {b.since:.9f} {b.until:.9f}" for b in self.beliefs]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
