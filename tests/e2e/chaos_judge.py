"""Whether what was written down keeps the promises. Each check gives the violations that it finds, as sentences.

Rounds are judged one by one: at the end of each everybody has rested and every scope was free.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chaos_log import Line

from openintent.client.values import Event

MS = 1_000_000  # in ns
SLACK_NS = 3 * MS  # lengths on the wire are rounded to the millisecond


class Belief(NamedTuple):
    since: int
    until: int
    client: str
    scope: str
    token: int


class Mark(NamedTuple):
    """The server's own order: of terms, and of commands in a term."""

    term: int
    rev: int


@dataclass
class History:
    """One round."""

    calls: list[Line] = field(default_factory=list)
    beliefs: list[Belief] = field(default_factory=list)
    acts: list[Line] = field(default_factory=list)
    writes: list[Line] = field(default_factory=list)
    faults: list[Line] = field(default_factory=list)
    turns: list[Line] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    missed: int = 0  # beliefs that were over when the body came to run: whoever looks, acts no more

    def calls_of(self, op: str, out: str) -> list[Line]:
        return [call for call in self.calls if call["op"] == op and call["out"] == out]

    def grants(self) -> dict[int, Line]:
        """By token, the first answer that told of it."""
        found: dict[int, Line] = {}
        for call in sorted(self.calls_of("acquire", "ok"), key=lambda call: call["ret"]):
            found.setdefault(call["tok"], call)
        return found


def gather(lines: Iterable[Line], events: list[Event], deaths: Mapping[str, int]) -> History:
    history = History(events=events)
    calls: dict[tuple[str, int], Line] = {}
    bounds: dict[tuple[str, int], dict[str, Line]] = defaultdict(dict)
    for line in lines:
        if "op" in line:
            calls[line["p"], line["n"]] = line  # the line of its end replaces that of its beginning
        elif "belief" in line:
            bounds[line["p"], line["tok"]][line["belief"]] = line
        else:
            kind = next(kind for kind in ("act", "write", "fault", "turn") if kind in line)
            getattr(history, f"{kind}s").append(line)
    history.calls = list(calls.values())
    beliefs = sorted(_belief(found, history.acts, deaths) for found in bounds.values())
    history.beliefs = [belief for belief in beliefs if belief.until > belief.since]
    history.missed = len(beliefs) - len(history.beliefs)
    return history


def _belief(found: Mapping[str, Line], acts: Iterable[Line], deaths: Mapping[str, int]) -> Belief:
    """A process that was paused says late that it has ended; but its trust ended by itself.

    One that was killed says nothing. Until when it trusted is what it knew at its last act.
    """
    start, end = found["start"], found.get("end")
    if end is None:
        mine = [act["until"] for act in acts if (act["p"], act["tok"]) == (start["p"], start["tok"])]
        until = min(deaths[start["p"]], max([start["until"], *mine]))
    else:
        until = min(end["at"], end["until"])
    return Belief(start["at"], until, start["p"], start["res"], start["tok"])


class Judge:
    """Knows of earlier rounds what the later ones must go on from."""

    def __init__(self) -> None:
        self._seq = 0
        self._token = 0
        self._stored: dict[str, int] = {}

    def violations(self, history: History) -> list[str]:
        checks = (
            beliefs_exclude(history),
            acts_are_in_turn(history),
            self._log_is_whole(history),
            grants_exclude(history),
            acknowledged_is_logged(history),
            tokens_rise_as_told(history),
            replies_are_in_order(history),
            no_resurrection(history),
            no_early_end(history),
            attempts_act_once(history),
            store_is_fenced(history, self._stored),
        )
        return [violation for check in checks for violation in check]

    def _log_is_whole(self, history: History) -> Iterator[str]:
        """I8 and I3: numbered without gaps, and no token was there before."""
        for event in history.events:
            if event.seq != self._seq + 1:
                yield f"event {event.seq} follows event {self._seq}"
            self._seq = event.seq
            if event.event_type == "lease_acquired":
                if event.payload["token"] <= self._token:
                    yield f"token {event.payload['token']} was granted after {self._token}"
                self._token = event.payload["token"]


def store_is_fenced(history: History, stored: dict[str, int]) -> Iterator[str]:
    """I4; `stored` are the newest tokens that it took before."""
    for write in history.writes:
        newest = stored.get(write["res"], 0)
        if not write["accepted"]:
            continue
        if write["tok"] < newest:
            yield f"the store took {write['tok']} of {write['write']} after {newest}"
        stored[write["res"]] = max(newest, write["tok"])


def beliefs_exclude(history: History) -> Iterator[str]:
    """I2: no two clients believe at one instant that they hold one scope."""
    last: dict[str, Belief] = {}
    for belief in history.beliefs:
        before = last.get(belief.scope)
        if before is not None and before.until > belief.since:
            late_ms = (before.until - belief.since) / MS
            yield f"{belief.scope}: {before.client} ({before.token}) believed {late_ms:.3f} ms into {belief}"
        if before is None or belief.until > before.until:
            last[belief.scope] = belief


def acts_are_in_turn(history: History) -> Iterator[str]:
    """I2, by what was done: whoever acts was granted the scope after all who acted or believed before."""
    moments = [(act["at"], act["tok"], act["res"], act["p"]) for act in history.acts]
    moments += [(belief.since, belief.token, belief.scope, belief.client) for belief in history.beliefs]
    newest: dict[str, int] = {}
    for at, token, scope, client in sorted(moments):
        if token < newest.get(scope, 0):
            yield f"{scope}: {client} acted under {token} at {at}, after {newest[scope]} had begun"
        newest[scope] = max(token, newest.get(scope, 0))


def grants_exclude(history: History) -> Iterator[str]:
    """I1, by the order of the log."""
    live: dict[str, int] = {}
    for event in history.events:
        scope, token = event.payload.get("scope", ""), event.payload.get("token", 0)
        if event.event_type == "lease_acquired":
            if scope in live:
                yield f"event {event.seq}: {scope} was granted while {live[scope]} was alive"
            live[scope] = token
        elif event.event_type == "lease_released" and live.pop(scope, None) != token:
            yield f"event {event.seq}: {token} ended and was not alive"


def acknowledged_is_logged(history: History) -> Iterator[str]:
    """I5: every grant and every end that somebody was told of."""
    granted = {event.payload["token"]: event.actor for event in _of(history, "lease_acquired")}
    ended = {event.payload["token"] for event in _of(history, "lease_released")}
    for token, call in history.grants().items():
        if granted.get(token) != call["p"]:
            yield f"{call['p']} was told of {token}, which the log has not"
    for call in history.calls_of("release", "ok"):
        if call["tok_in"] not in ended:
            yield f"{call['p']} was told that {call['tok_in']} is released, and the log does not know"


def _of(history: History, kind: str) -> list[Event]:
    return [event for event in history.events if event.event_type == kind]


def tokens_rise_as_told(history: History) -> Iterator[str]:
    """I3: a grant that was asked for after another was told has the larger token."""
    asked: dict[str, int] = {}  # by attempt: what a repeat tells of may have been granted to the first try
    for call in sorted(history.calls, key=lambda call: call["call"]):
        asked.setdefault(call.get("idem", ""), call["call"])
    grants = [(asked[call["idem"]], call["ret"], token, call["p"]) for token, call in history.grants().items()]
    yield from _in_order_of_time("token", grants)


def replies_are_in_order(history: History) -> Iterator[str]:
    """I12, as far as order goes: the server's own never contradicts that of the world."""
    marked = [call for call in history.calls if call["ret"] is not None and "rev" in call]
    spans = [(call["call"], call["ret"], mark_of(call), f"{call['p']} {call['op']}") for call in marked]
    yield from _in_order_of_time("mark", spans)


def mark_of(call: Line) -> Mark:
    return Mark(call["term"], call["rev"])


def _in_order_of_time(what: str, spans: list[tuple[int, int, Any, str]]) -> Iterator[str]:
    by_end, ended = sorted(spans, key=lambda span: span[1]), 0
    newest: Any = None
    for call, _, value, who in sorted(spans):
        while by_end[ended][1] < call:
            value_before = by_end[ended][2]
            newest = value_before if newest is None else max(newest, value_before)
            ended += 1
        if newest is not None and value <= newest:
            yield f"{who} was answered with {what} {value}, after {newest} had been told"


def no_resurrection(history: History) -> Iterator[str]:
    """I6: in the server's order, what has ended is never renewed."""
    ends: dict[int, Mark] = {}
    for call in [*history.calls_of("release", "ok"), *history.calls_of("renew", "lost")]:
        token = call["tok_in"]
        ends[token] = min(mark_of(call), ends.get(token, mark_of(call)))
    for call in history.calls_of("renew", "ok"):
        if call["tok_in"] in ends and mark_of(call) > ends[call["tok_in"]]:
            yield f"{call['p']}: {call['tok_in']} was renewed after it had ended"


def no_early_end(history: History) -> Iterator[str]:
    """I7a: nobody is told that a lease is lost, or of the next one, before the promised time has passed."""
    promised, told = promises(history), history.grants()
    given_back = {event.payload["token"] for event in _of(history, "lease_released") if not lapsed(event)}
    ends = [(call["tok_in"], call["ret"], "lost") for call in history.calls_of("renew", "lost")]
    before: dict[str, int] = {}
    for event in _of(history, "lease_acquired"):
        token, scope = event.payload["token"], event.payload["scope"]
        if scope in before and token in told:
            ends.append((before[scope], told[token]["ret"], f"over by the grant of {token}"))
        before[scope] = token
    for token, at, what in ends:
        early_ns = promised.get(token, 0) - at - SLACK_NS
        if early_ns > 0 and token not in given_back:
            yield f"{token} was {what} {early_ns / MS:.3f} ms before it could lapse"


def promises(history: History) -> dict[int, int]:
    """By token, until when its holder was promised it at the least."""
    found: dict[int, int] = {}
    for call in [*history.calls_of("acquire", "ok"), *history.calls_of("renew", "ok")]:
        # It was promised at the earliest when it was sent, and had waited for so long.
        until = call["call"] + (call.get("waited_ms", 0) + call["ttl_left_ms"]) * MS
        token = call.get("tok") or call["tok_in"]
        found[token] = max(until, found.get(token, 0))
    return found


def lapsed(event: Event) -> bool:
    return event.payload.get("reason") == "expired"


def attempts_act_once(history: History) -> Iterator[str]:
    """I10."""
    tokens: dict[str, set[int]] = defaultdict(set)
    for call in history.calls_of("acquire", "ok"):
        tokens[call["idem"]].add(call["tok"])
    yield from (f"attempt {attempt} got {sorted(got)}" for attempt, got in tokens.items() if len(got) > 1)
