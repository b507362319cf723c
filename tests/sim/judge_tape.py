"""What the tape shows: the order of the queue, what became of each attempt, and whether ends came in time."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from replay import APPLY, OUTBOX, Played, Replay, Tape

from openintent.core.answers import Granted, Queued, Seen, Verdicts
from openintent.core.commands import Acquire, Gone
from openintent.model import Event

_DECODERS: dict[type, msgspec.msgpack.Decoder[Any]] = {kind: msgspec.msgpack.Decoder(kind) for kind in (Acquire, Gone)}
_granted = msgspec.msgpack.Decoder(Granted)
_LEASES: dict[type, msgspec.msgpack.Decoder[Any]] = {Granted: _granted, Seen: msgspec.msgpack.Decoder(Seen)}
_verdicts = msgspec.msgpack.Decoder(Verdicts)


# What became of a request: revision, what it asked (None if it had asked before), its number, the kind of answer,
# and the token if it is a grant.
Told: TypeAlias = tuple[int, Acquire | Gone | None, int, type, int]
Terms: TypeAlias = list[tuple[int, list[Told]]]  # by term, each in the order of its revisions


def told_to_requests(tape: Tape) -> Terms:
    """What let something lapse first answered others first: its own revision is the larger one."""
    return [(played.term, sorted(_told(played), key=lambda each: each[0])) for played in tape.terms]


def _told(played: Played) -> Iterator[Told]:
    for what, noted in played.steps:
        if what == OUTBOX:
            yield from ((rev, None, request, answer, _token(answer, shown)) for request, rev, _, answer, shown in noted)
        elif what == APPLY and noted[0][3] in _DECODERS:
            (_, _, _, kind, written), rev, _, answer, shown = noted
            asked = _DECODERS[kind].decode(written)
            yield rev, asked, asked.request, answer, _token(answer, shown)


def _token(answer: type, shown: bytes) -> int:
    token: int = _granted.decode(shown).lease.token if answer is Granted else 0
    return token


def attempts_act_once(terms: Terms, replay: Replay) -> Iterator[str]:
    """I10: by what became durable, an attempt has one token at the most."""
    tokens: dict[tuple[str, str], set[int]] = {}
    for term, told in terms:
        for rev, asked, kind, token in _acquires(told, {}):
            durable = replay.rests_on[term, rev] <= replay.durable.get(term, 0)
            if kind is Granted and asked.attempt is not None and durable:
                tokens.setdefault((asked.ask.holder, asked.attempt), set()).add(token)
    yield from (f"attempt {key} got the tokens {sorted(got)}" for key, got in tokens.items() if len(got) > 1)


def _acquires(told: list[Told], waiting: dict[int, Acquire]) -> Iterator[tuple[int, Acquire, type, int]]:
    """Every answer to an acquire, in order: revision, what was asked, and the answer. `waiting` is kept up to date."""
    for rev, asked, request, answer, token in told:
        if isinstance(asked, Acquire):
            if answer is Queued:
                waiting[request] = asked
            yield rev, asked, answer, token
        elif isinstance(asked, Gone):
            waiting.pop(request, None)
        elif request in waiting:
            yield rev, waiting.pop(request), answer, token


def nobody_overtakes(terms: Terms) -> Iterator[str]:
    """I9: whoever stands in line with an open request is granted before all who came later for the same scope."""
    came: dict[tuple[str, str | None], tuple[int, int]] = {}  # by holder and attempt: when it was first seen
    seen: set[int] = set()
    for term, told in terms:
        waiting: dict[int, Acquire] = {}
        opened: dict[int, tuple[int, int]] = {}
        for rev, asked, kind, token in _acquires(told, waiting):
            first = came.setdefault((asked.ask.holder, asked.attempt), (term, rev))
            if kind is Queued:
                opened[asked.request] = (term, rev)
            elif kind is Granted and token not in seen:
                seen.add(token)  # a repeat only shows it again
                yield from _overtaken(asked, first, waiting, opened)


def _overtaken(asked: Acquire, first: Any, waiting: dict[int, Acquire], opened: dict[int, Any]) -> Iterator[str]:
    for request, other in waiting.items():
        mine, ask = other.ask, asked.ask
        same = (mine.space, mine.scope) == (ask.space, ask.scope) and mine.holder != ask.holder
        if same and (-mine.priority, opened[request]) < (-ask.priority, first):
            yield f"{ask.holder} was granted {ask.scope} before {mine.holder}, who had been waiting for it"


def grants_are_told(terms: Terms, events: Sequence[Event]) -> Iterator[str]:
    """I9: nobody is granted anything whose request is over; every grant in the log was the answer to an open one."""
    granted = {token for _, told in terms for _, _, kind, token in _acquires(told, {}) if kind is Granted}
    for event in events:
        if event.grant is not None and event.grant.token not in granted:
            yield f"event {event.seq}: {event.actor} was granted what it no longer asked for"


def nothing_is_renewed_after_its_end(tape: Tape) -> Iterator[str]:
    """I6, by the ledger's own time: what was promised until an instant is not prolonged after it."""
    for played in tape.terms:
        ends_ms: dict[str, int] = {}
        for what, noted in played.steps:
            if what == APPLY:
                now_ms, answer, shown = noted[0][0], noted[3], noted[4]
                for lease_id, remaining_ms in _promised(answer, shown):
                    if ends_ms.get(lease_id, now_ms + 1) <= now_ms:
                        yield f"lease {lease_id} was renewed {now_ms - ends_ms[lease_id]} ms after its end"
                    ends_ms[lease_id] = max(ends_ms.get(lease_id, 0), now_ms + remaining_ms)


def _promised(answer: type, shown: bytes) -> Iterator[tuple[str, int]]:
    if answer in _LEASES:
        told = _LEASES[answer].decode(shown)
        yield told.lease.id, told.remaining_ms
    elif answer is Verdicts:
        told = _verdicts.decode(shown)
        listed = enumerate(zip(told.held, told.left_ms, strict=True))
        yield from ((id_, left_ms) for place, ((id_, _), left_ms) in listed if place not in told.lost)


def lapses_are_in_time(tape: Tape) -> Iterator[str]:
    """I7b: what is due is dealt with soon, as long as the process runs."""
    yield from (f"what was due lapsed {late_ms} ms late, at {at:.3f}" for at, late_ms in tape.late)
