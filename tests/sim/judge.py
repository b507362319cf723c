"""Whether a history keeps the promises. Each check gives the violations that it finds, as sentences."""

from collections.abc import Iterator

from history import Heard
from simworld import World

from openintent import records
from openintent.core.scopes import covers
from openintent.model import Event

DRIFT = 1.003  # clocks differ by 0.1 % each
SLACK_S = 0.002


def violations(world: World) -> list[str]:
    events = durable_log(world)
    checks = (
        log_is_whole(world, events),
        tokens_rise(events),
        grants_exclude(events),
        beliefs_exclude(world),
        acknowledged_is_durable(world, events),
        attempts_act_once(world),
        no_resurrection(world),
        replies_are_in_order(world),
        store_is_fenced(world),
        no_early_expiry(world, events),
        nothing_is_stuck(world),
        no_failures_inside(world),
    )
    return [violation for check in checks for violation in check]


def durable_log(world: World) -> list[Event]:
    events = {}
    for key, value in world.disk.records.items():
        if key.startswith("v/"):
            events |= {event.seq: event for event in records.decode(key, value)}
    return [events[seq] for seq in sorted(events)]


def log_is_whole(world: World, events: list[Event]) -> Iterator[str]:
    """I8: numbered without gaps, up to what the head says."""
    numbers = [event.seq for event in events]
    if numbers != list(range(1, world.disk.head.seq + 1)):
        yield f"the log has {len(numbers)} events, the head says {world.disk.head.seq}"


def tokens_rise(events: list[Event]) -> Iterator[str]:
    """I3."""
    largest = 0
    for event in events:
        if event.type == "lease_acquired":
            token = (event.payload or {})["token"]
            if token <= largest:
                yield f"token {token} was granted after {largest}"
            largest = max(largest, token)


def grants_exclude(events: list[Event]) -> Iterator[str]:
    """I1, by the order of the log."""
    live: dict[str, tuple[str, str]] = {}
    for event in events:
        if event.type == "lease_acquired":
            payload = event.payload or {}
            for scope, holder in live.values():
                if holder != event.actor and (covers(scope, payload["scope"]) or covers(payload["scope"], scope)):
                    yield f"event {event.seq}: {payload['scope']} granted to {event.actor}, {holder} has {scope}"
            live[payload["lease_id"]] = (payload["scope"], event.actor)
        elif event.lease is not None and live.pop(event.lease.id, None) is None:
            yield f"event {event.seq}: lease {event.lease.id} ended and was not alive"


def beliefs_exclude(world: World) -> Iterator[str]:
    """I2: no two clients believe at one instant to hold scopes that overlap."""
    spans = sorted(world.history.beliefs, key=lambda belief: belief.since)
    open_spans: list[int] = []
    for index, belief in enumerate(spans):
        open_spans = [other for other in open_spans if spans[other].until > belief.since]
        for other in (spans[number] for number in open_spans):
            apart = not (covers(other.scope, belief.scope) or covers(belief.scope, other.scope))
            if other.client != belief.client and not apart and belief.until > belief.since:
                yield f"at {belief.since:.3f} {belief.client} and {other.client} both hold {belief.scope}/{other.scope}"
        open_spans.append(index)


def acknowledged_is_durable(world: World, events: list[Event]) -> Iterator[str]:
    """I5: whatever a client was told has happened is in the log."""
    granted = {(event.payload or {})["token"]: event.actor for event in events if event.type == "lease_acquired"}
    ended = {event.lease.id for event in events if event.lease is not None}
    for heard in world.history.heard:
        if heard.status != 200:
            continue
        token = heard.body.get("token")
        if heard.method == "POST" and token is not None and granted.get(token) != heard.client:
            yield f"{heard.client} was told of token {token}, which the log has not"
        if heard.method == "DELETE" and "id" in heard.body and heard.body["id"] not in ended:
            yield f"{heard.client} was told that {heard.body['id']} is released, and the log does not know"


def attempts_act_once(world: World) -> Iterator[str]:
    """I10."""
    tokens: dict[tuple[str, str], set[int]] = {}
    for heard in world.history.heard:
        if heard.status == 200 and heard.attempt is not None and "token" in heard.body:
            tokens.setdefault((heard.client, heard.attempt), set()).add(heard.body["token"])
    yield from (f"attempt {key} got the tokens {sorted(got)}" for key, got in tokens.items() if len(got) > 1)


def no_resurrection(world: World) -> Iterator[str]:
    """I6: in the order of decisions, what was lost once is never renewed."""
    lost: set[str] = set()
    for heard in sorted(_decided(world), key=lambda heard: (heard.term, heard.rev)):
        for verdict in heard.body.get("leases", ()):
            if verdict.get("verdict") == "lost" and verdict.get("reason") != "unknown":
                lost.add(verdict["id"])
            elif verdict.get("verdict") == "renewed" and verdict["id"] in lost:
                yield f"lease {verdict['id']} was renewed after it was lost"
        if heard.method == "DELETE" and heard.status == 200 and "id" in heard.body:
            lost.add(heard.body["id"])


def replies_are_in_order(world: World) -> Iterator[str]:
    """I12, as far as one client sees it: what was answered before the next was asked comes before it."""
    newest: dict[str, Heard] = {}
    for heard in sorted(_decided(world), key=lambda heard: heard.sent):
        before = newest.get(heard.client)
        if before is not None and before.heard < heard.sent and (before.term, before.rev) >= (heard.term, heard.rev):
            yield f"{heard.client}: {heard.path} has {(heard.term, heard.rev)} after {(before.term, before.rev)}"
        if before is None or (heard.term, heard.rev) > (before.term, before.rev):
            newest[heard.client] = heard


def _decided(world: World) -> list[Heard]:
    return [heard for heard in world.history.heard if heard.rev]


def store_is_fenced(world: World) -> Iterator[str]:
    """I4: what the store took in overlapping scopes never goes back."""
    taken: dict[str, int] = {}
    for at, client, scope, token, accepted in world.store.log:
        if not accepted:
            world.history.count("stale write refused")
            continue
        seen = max((large for other, large in taken.items() if covers(scope, other) or covers(other, scope)), default=0)
        if seen > token:
            yield f"at {at:.3f} the store took {token} of {client} after {seen}"
        taken[scope] = max(token, taken.get(scope, 0))


def no_early_expiry(world: World, events: list[Event]) -> Iterator[str]:
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
    if heard.status == 200 and heard.method == "POST" and "remaining_seconds" in body:
        tokens[body["id"]] = body["token"]
        yield body["token"], body["waited_seconds"] + body["remaining_seconds"]
    for verdict in body.get("leases", ()):
        if verdict.get("verdict") == "renewed" and verdict["id"] in tokens:
            yield tokens[verdict["id"]], verdict["remaining_seconds"]


def nothing_is_stuck(world: World) -> Iterator[str]:
    """In the quiet phase everybody finishes, and whatever nobody holds becomes free."""
    busy = [client.name for client in world.clients.values() if client.busy]
    if busy:
        yield f"still busy at the end: {busy}"
    left = [key for key in world.disk.records if key.startswith(("l/", "w/"))]
    if left:
        yield f"left behind: {left}"


def no_failures_inside(world: World) -> Iterator[str]:
    loops = [each.loop for each in (*world.servers, *world.clients.values())]
    for loop in loops:
        yield from (f"failure inside: {failure}" for failure in loop.failures)
