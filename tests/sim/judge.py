"""Whether a history keeps the promises. Each check gives the violations that it finds, as sentences.

The numbers are those of the invariants that they hold: 1 exclusion, 2 exclusion of belief, 3 tokens rise, 4 no stale
write, 5 nothing acknowledged is lost, 6 no resurrection, 7 neither early nor late expiry, 8 the log, 9 the queue,
10 repeats act once, 11 authority, 12 one order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import linear
from history import Deed, Heard, overlap
from judge_tape import (
    attempts_act_once,
    grants_are_told,
    lapses_are_in_time,
    nobody_overtakes,
    nothing_is_renewed_after_its_end,
    told_to_requests,
)
from replay import Replay, heard_is_durable
from simworld import World

from openintent import records
from openintent.model import Event

DRIFT = 1.003  # clocks differ by 0.1 % each
SLACK_S = 0.002
RULES = linear.Rules(cooldown=True, late_release=True, conflicts=overlap)


class Verdict:
    """What was found in one history."""

    def __init__(self, world: World) -> None:
        self._world = world
        events = durable_log(world)
        replay = Replay(world.tape)
        told = told_to_requests(world.tape)
        checks = (
            log_is_whole(world, events),
            tokens_rise(events),
            grants_exclude(events),
            beliefs_exclude(world),
            acknowledged_is_logged(world, events),
            no_resurrection(world),
            replies_are_in_order(world),
            store_is_fenced(world),
            no_early_expiry(world, events),
            only_holders_act(world, events),
            counting_adds_up(world),
            nothing_is_stuck(world),
            no_failures_inside(world),
            replay.violations,
            heard_is_durable(replay, world.history.heard),
            attempts_act_once(told, replay),
            nobody_overtakes(told),
            grants_are_told(told, events),
            nothing_is_renewed_after_its_end(world.tape),
            lapses_are_in_time(world.tape),
            self._one_order(),
        )
        self.violations = [violation for check in checks for violation in check]

    def _one_order(self) -> Iterator[str]:
        """I12, by an independent search among the deeds of the clients."""
        verdict, stuck = linear.check([_operation(deed) for deed in self._world.history.deeds], rules=RULES)
        self.undecided = int(verdict is linear.Verdict.UNDECIDED)
        if verdict is linear.Verdict.BROKEN:
            yield f"no order explains what was seen: {stuck}"


def violations(world: World) -> list[str]:
    return Verdict(world).violations


def _operation(deed: Deed) -> linear.Op:
    return linear.Op(
        client=deed.client,
        kind=deed.kind,
        resource=deed.scope,
        call=deed.since,
        ret=deed.until,
        outcome=deed.outcome,
        token=deed.token,
        ttl=deed.ttl_s,
        attempt=deed.attempt if deed.kind == "acquire" else None,
    )


def durable_log(world: World) -> list[Event]:
    events = {}
    for key, value in world.disk.records.items():
        if key.startswith("v/"):
            events |= {event.seq: event for event in records.decode(key, value)}
    return [events[seq] for seq in sorted(events)]


def log_is_whole(world: World, events: Sequence[Event]) -> Iterator[str]:
    """I8: numbered without gaps, up to what the head says."""
    numbers = [event.seq for event in events]
    if numbers != list(range(1, world.disk.head.seq + 1)):
        yield f"the log has {len(numbers)} events, the head says {world.disk.head.seq}"


def tokens_rise(events: Sequence[Event]) -> Iterator[str]:
    """I3."""
    largest = 0
    for event in events:
        if event.grant is not None:
            token = event.grant.token
            if token <= largest:
                yield f"token {token} was granted after {largest}"
            largest = max(largest, token)


def grants_exclude(events: Sequence[Event]) -> Iterator[str]:
    """I1, by the order of the log."""
    live: dict[str, tuple[str, str]] = {}
    for event in events:
        if event.grant is not None:
            granted = event.grant.scope
            for scope, holder in live.values():
                if holder != event.actor and overlap(scope, granted):
                    yield f"event {event.seq}: {granted} granted to {event.actor}, {holder} has {scope}"
            live[event.grant.id] = (granted, event.actor)
        elif event.lease is not None and live.pop(event.lease.id, None) is None:
            yield f"event {event.seq}: lease {event.lease.id} ended and was not alive"


def beliefs_exclude(world: World) -> Iterator[str]:
    """I2: no two clients believe at one instant to hold scopes that overlap."""
    spans = sorted(world.history.beliefs, key=lambda belief: belief.since)
    open_spans: list[int] = []
    for index, belief in enumerate(spans):
        open_spans = [other for other in open_spans if spans[other].until > belief.since]
        for other in (spans[number] for number in open_spans):
            if other.client != belief.client and overlap(other.scope, belief.scope) and belief.until > belief.since:
                yield f"at {belief.since:.3f} {belief.client} and {other.client} both hold {belief.scope}/{other.scope}"
        open_spans.append(index)


def acknowledged_is_logged(world: World, events: Sequence[Event]) -> Iterator[str]:
    """I5: whatever a client was told has happened, to itself or to others, is in the log."""
    granted = {event.grant.token: event.actor for event in events if event.grant is not None}
    ended = {event.lease.id for event in events if event.lease is not None}
    for heard in world.history.heard:
        if heard.status != 200:
            continue
        for lease in _leases_in(heard):
            if granted.get(lease["token"]) != lease["agent_id"]:
                yield f"{heard.client} was told of token {lease['token']}, which the log has not"
        if heard.method == "DELETE" and "id" in heard.body and heard.body["id"] not in ended:
            yield f"{heard.client} was told that {heard.body['id']} is released, and the log does not know"


def _leases_in(heard: Heard) -> list[dict[str, object]]:
    if not isinstance(heard.body, dict):
        return list(heard.body)
    if "token" in heard.body and "agent_id" in heard.body:
        return [heard.body]
    return [lease for lease in heard.body.get("leases", ()) if "agent_id" in lease]


def no_resurrection(world: World) -> Iterator[str]:
    """I6: in the order of decisions, what was lost once is never renewed."""
    lost: set[str] = set()
    for heard in sorted(_decided(world), key=lambda heard: (heard.term, heard.rev)):
        for verdict in _verdicts(heard):
            if verdict["verdict"] == "lost" and verdict.get("reason") != "unknown":
                lost.add(verdict["id"])
            elif verdict["verdict"] == "renewed" and verdict["id"] in lost:
                yield f"lease {verdict['id']} was renewed after it was lost"
        if heard.method == "DELETE" and heard.status == 200 and "id" in heard.body:
            lost.add(heard.body["id"])


def _verdicts(heard: Heard) -> list[dict[str, str]]:
    found = heard.body.get("leases", ()) if isinstance(heard.body, dict) else ()
    return [verdict for verdict in found if "verdict" in verdict]


def replies_are_in_order(world: World) -> Iterator[str]:
    """I12: what anybody was answered before another asked comes before the answer to that one."""
    moments = [(heard.sent, 1, heard) for heard in _decided(world)]
    moments += [(heard.heard or 0.0, 0, heard) for heard in _decided(world)]
    newest = (0, 0)
    before: dict[int, tuple[int, int]] = {}
    for _, asks, heard in sorted(moments, key=lambda moment: moment[:2]):
        revision = (heard.term, heard.rev)
        if asks:
            before[id(heard)] = newest
        else:
            if revision <= before[id(heard)]:
                yield f"{heard.client}: {heard.path} has {revision} after somebody had {before[id(heard)]}"
            newest = max(newest, revision)


def _decided(world: World) -> list[Heard]:
    return [heard for heard in world.history.heard if heard.rev]


def store_is_fenced(world: World) -> Iterator[str]:
    """I4: what the store took in overlapping scopes never goes back."""
    taken: dict[str, int] = {}
    for write in world.store.log:
        if write.accepted:
            seen = max([large for other, large in taken.items() if overlap(write.scope, other)], default=0)
            if seen > write.token:
                yield f"at {write.at:.3f} the store took {write.token} of {write.client} after {seen}"
            taken[write.scope] = max(write.token, taken.get(write.scope, 0))


def no_early_expiry(world: World, events: Sequence[Event]) -> Iterator[str]:
    """I7a: a lease that lapsed had all the time that its holder was promised, from the sending of the request on."""
    promised = _promises(world)
    decided_at = world.disk.decided_at
    for event in events:
        lease = event.lease
        if lease is not None and lease.ended_reason == "expired" and lease.token in promised:
            world.history.count("lapse of a promise")
            early_s = (promised[lease.token][1] - (decided_at[event.seq] - promised[lease.token][0]) * DRIFT) - SLACK_S
            if early_s > 0:
                yield f"lease {lease.token} of {lease.holder} lapsed {early_s:.3f} s early"


def _promises(world: World) -> dict[int, tuple[float, float]]:
    """By token: when the request was sent for which the holder was promised most, and how much that was."""
    ends: dict[int, tuple[float, float]] = {}
    tokens: dict[str, int] = {}
    for heard in world.history.heard:
        for token, length_s in _promised(heard, tokens):
            if heard.sent + length_s > sum(ends.get(token, (0.0, 0.0))):
                ends[token] = (heard.sent, length_s)
    return ends


def _promised(heard: Heard, tokens: dict[str, int]) -> Iterator[tuple[int, float]]:
    """The promises in one reply: that of a grant, or those of a heartbeat. `tokens` is by lease, and grows."""
    body = heard.body
    if heard.status == 200 and heard.method == "POST" and isinstance(body, dict) and "remaining_seconds" in body:
        tokens[body["id"]] = body["token"]
        yield body["token"], body["waited_seconds"] + body["remaining_seconds"]
    for verdict in _verdicts(heard):
        if verdict["verdict"] == "renewed" and verdict["id"] in tokens:
            yield tokens[verdict["id"]], float(verdict["remaining_seconds"])


def only_holders_act(world: World, events: Sequence[Event]) -> Iterator[str]:
    """I11: nobody ends or prolongs what somebody else holds."""
    holders = {event.grant.id: event.actor for event in events if event.grant is not None}
    for heard in world.history.heard:
        for verdict in _verdicts(heard):
            if verdict["verdict"] == "renewed" and holders.get(verdict["id"], heard.client) != heard.client:
                yield f"{heard.client} prolonged lease {verdict['id']} of {holders[verdict['id']]}"
        lease_id = heard.path.rpartition("/leases/")[2]
        if heard.status == 200 and lease_id in holders and holders[lease_id] != heard.client:
            yield f"{heard.client} was let do {heard.method} to lease {lease_id} of {holders[lease_id]}"


def counting_adds_up(world: World) -> Iterator[str]:
    """I5 and I10: every acknowledged increment is there, and none counted twice."""
    key = next((key for key in world.disk.records if key.startswith("i/")), None)
    counted = 0 if key is None else records.decode(key, world.disk.records[key]).state["n"]
    outcomes = Counter(world.history.counted.values())
    world.history.count("counted", outcomes["ok"])
    if not outcomes["ok"] <= counted <= outcomes["ok"] + outcomes["unknown"]:
        yield f"the number is {counted}: {outcomes['ok']} additions were acknowledged, {outcomes['unknown']} unknown"


def nothing_is_stuck(world: World) -> Iterator[str]:
    """I7b: in the quiet phase everybody finishes, what nobody holds becomes free, and what is free can be had."""
    left = world.left_over()
    if left:
        yield f"left behind: {left}"
    if world.history.probe != "granted":
        yield f"in the end nobody could have it all: {world.history.probe or 'no answer'}"


def no_failures_inside(world: World) -> Iterator[str]:
    loops = [each.loop for each in (*world.servers, *world.clients.values(), world.operator)]
    for loop in loops:
        yield from (f"failure inside: {failure}" for failure in loop.failures)
