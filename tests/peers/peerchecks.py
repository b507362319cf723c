"""The same questions to every lock service, from outside. Each check returns what it counted; a zero is a good answer.

Nothing here knows which service it asks. Rounds use resources of their own, so that one round cannot mend another.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from itertools import cycle
from time import monotonic
from typing import Any

from losingproxy import LosingProxy
from peer import HOLDERS, NOT_OFFERED, AnswerLost, Grant, Locks, Peer

Counted = dict[str, Any]
Progress = Callable[[int, int], None]

RACERS = HOLDERS[:32]
A, B, C = HOLDERS[:3]
TTL_S = 1.0  # the shortest that all of them know
PAUSE_TTL_S = 2.0  # a holder that is to be stopped must first be granted all of its leases
LONG_TTL_S = 30.0  # longer than any check
PATIENCE_S = 60.0  # with a service that answers, but never with a grant
TOGETHER = 25  # rounds that wait for the same second
CLOCK_GRAIN_S = 0.002  # Redis counts whole milliseconds
LOOKS_MAX = 100  # our server looks at the wall clock now and then, for the dates that it shows
GRANTS_MAX = 150  # before a kill
PAUSE_S = 0.001
LATE_S = 0.1


async def until(moment: float) -> None:
    """The end of a ttl sends no signal to those outside; there is only the clock."""
    await asyncio.sleep(max(0.0, moment - monotonic()))


def note(counted: Counted, name: str, happened: bool) -> None:
    """Not `counted[name] += await ...`, which reads the old count before it waits, and loses what others count then."""
    counted[name] += happened


async def tried(locks: Locks, resource: str, holder: str, ttl_s: float = LONG_TTL_S) -> Grant | AnswerLost | None:
    try:
        return await locks.acquire(resource, holder=holder, ttl_s=ttl_s)
    except AnswerLost as lost:
        return lost


async def eventually(locks: Locks, resource: str, holder: str, ttl_s: float = LONG_TTL_S) -> Grant:
    """Ask until it is granted; who asks again at once is in the way of the one that releases."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            outcome = await tried(locks, resource, holder, ttl_s)
            if isinstance(outcome, Grant):
                return outcome
            await asyncio.sleep(PAUSE_S * random.uniform(1, 10))


async def race(servers: Sequence[Locks], *, rounds: int, progress: Progress) -> Counted:
    """All racers at once, on the servers in turn."""
    two = none = unanswered = 0
    for n in range(rounds):
        asked = [tried(locks, f"race-{n}", holder) for holder, locks in zip(RACERS, cycle(servers), strict=False)]
        outcomes = await asyncio.gather(*asked)
        winners = [(servers[at % len(servers)], won) for at, won in enumerate(outcomes) if isinstance(won, Grant)]
        unanswered += sum(isinstance(outcome, AnswerLost) for outcome in outcomes)
        two += len(winners) > 1
        none += not winners
        await asyncio.gather(*(locks.release(grant) for locks, grant in winners), return_exceptions=True)
        progress(n + 1, rounds)
    return {"rounds": rounds, "racers": len(RACERS), "two_winners": two, "no_winner": none, "unanswered": unanswered}


async def increments(locks: Locks, *, rounds: int, workers: int = 8) -> Counted:
    """Read, think, write, each under the lease: what is written without it is lost."""
    value, left = 0, iter(range(rounds))

    async def work(holder: str) -> None:
        nonlocal value
        for _ in left:
            grant = await eventually(locks, "counter", holder)
            seen = value
            await asyncio.sleep(PAUSE_S)
            value = seen + 1
            await locks.release(grant)

    await asyncio.gather(*map(work, HOLDERS[:workers]))
    return {"increments": rounds, "workers": workers, "lost_updates": rounds - value}


async def expiry(locks: Locks, *, rounds: int, progress: Progress) -> Counted:
    """A holder that comes back after its ttl, to a resource that another has by now, or that nobody has."""
    counted = {"rounds": rounds, "granted_early": 0, "revived": 0, "freed_anothers": 0, "renewed_after_the_end": 0}
    for first in range(0, rounds, TOGETHER):
        batch = range(first, min(first + TOGETHER, rounds))
        await asyncio.gather(*(_taken_over(locks, f"late-{n}", counted) for n in batch))
        progress(batch.stop, rounds)
    # A revived holder and its successor are both told that they have it.
    return {**counted, "overlaps_of_belief": counted["granted_early"] + counted["revived"]}


async def _taken_over(locks: Locks, resource: str, counted: Counted) -> None:
    alone = await eventually(locks, f"{resource}-alone", A, TTL_S)
    late = await eventually(locks, resource, A, TTL_S)
    await until(late.sent_at + TTL_S * 0.9)
    successor = await eventually(locks, resource, B)
    counted["granted_early"] += monotonic() < late.sent_at + TTL_S - CLOCK_GRAIN_S

    note(counted, "revived", await locks.renew(late, ttl_s=LONG_TTL_S))
    await locks.release(late)
    note(counted, "freed_anothers", await locks.acquire(resource, holder=C, ttl_s=LONG_TTL_S) is not None)
    await locks.release(successor)

    await until(alone.sent_at + TTL_S + LATE_S)
    note(counted, "renewed_after_the_end", await locks.renew(alone, ttl_s=LONG_TTL_S))
    await locks.release(alone)


async def crashes(peer: Peer, *, kills: int, seed: int, progress: Progress) -> Counted:
    """kill -9 of the server while it grants; what it had acknowledged must still be held after the restart."""
    dice = random.Random(seed)
    acknowledged = lost = back = newest = 0
    for kill in range(kills):
        async with aclosing(peer.locks()) as locks:
            granted = await _granting_until_killed(peer, locks, f"kill-{kill}", grants=dice.randint(1, GRANTS_MAX))
            assert await peer.start()
            fresh = await eventually(locks, f"after-{kill}", C)
            asked = [await locks.acquire(grant.resource, holder=C, ttl_s=LONG_TTL_S) for grant in granted]
        stolen = [grant for grant in asked if grant is not None]
        newest = max([newest, *(grant.token or 0 for grant in granted)])
        back += sum(grant.token <= newest for grant in [fresh, *stolen] if grant.token is not None)
        acknowledged, lost = acknowledged + len(granted), lost + len(stolen)
        progress(kill + 1, kills)
    went_back = back if peer.fences else NOT_OFFERED
    return {"kills": kills, "acknowledged": acknowledged, "lost": lost, "tokens_back": went_back, "seed": seed}


async def _granting_until_killed(peer: Peer, locks: Locks, name: str, *, grants: int) -> list[Grant]:
    """The kill comes when so many are acknowledged and the next requests are under way."""
    granted: list[Grant] = []
    enough = asyncio.Event()

    async def work(holder: str) -> None:
        while isinstance(outcome := await tried(locks, f"{name}-{len(granted)}-{holder}", holder), Grant):
            granted.append(outcome)
            if len(granted) >= grants:
                enough.set()

    workers = [asyncio.create_task(work(holder)) for holder in HOLDERS[3:7]]
    async with asyncio.timeout(LONG_TTL_S / 2):
        await enough.wait()
    peer.kill()
    acknowledged = list(granted)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return acknowledged


async def repeats(peer: Peer, *, rounds: int, progress: Progress) -> Counted:
    """An acquire whose answer is lost, sent again: it must end with one grant, and in the hands of who asked."""
    counted: Counted = {"rounds": rounds, "locked_out": 0, "granted_twice": 0, "granted_again_after_release": 0}
    proxy = LosingProxy(peer.port)
    async with aclosing(proxy), aclosing(peer.locks(await proxy.start())) as lossy, aclosing(peer.locks()) as locks:
        for n in range(rounds):
            warm = await eventually(lossy, f"warm-{n}", A)  # the connection is open: the next answer is the acquire's
            await lossy.release(warm)
            proxy.lose_next_answer()
            await _repeated(lossy, locks, f"repeat-{n}", counted)
            progress(n + 1, rounds)
    assert proxy.lost == rounds, "each round must lose its answer"
    if not peer.repeats:
        counted["granted_again_after_release"] = NOT_OFFERED
    return {**counted, "repeat_by_id": "offered" if peer.repeats else NOT_OFFERED}


async def _repeated(lossy: Locks, locks: Locks, resource: str, counted: Counted) -> None:
    try:
        grant = await lossy.acquire(resource, holder=A, ttl_s=LONG_TTL_S, attempt=resource)
    except AnswerLost:
        grant = await lossy.acquire(resource, holder=A, ttl_s=LONG_TTL_S, attempt=resource)
    if grant is None:
        counted["locked_out"] += 1  # nobody else has asked: it is its own first grant
        return
    await lossy.release(grant)
    late = await lossy.acquire(resource, holder=A, ttl_s=LONG_TTL_S, attempt=resource)
    if late is not None:
        counted["granted_again_after_release"] += 1
        await lossy.release(late)
    note(counted, "granted_twice", await locks.acquire(resource, holder=B, ttl_s=LONG_TTL_S) is None)


async def clock_steps(peer: Peer, set_clock: Callable[[int], None], *, rounds: int, step_s: int) -> Counted:
    """The wall clock of the server is set forward, then back, while leases live: none may end early, or late."""
    async with aclosing(peer.locks()) as locks:
        began = await locks.wall_s()
        for n in range(rounds):
            await eventually(locks, f"forward-{n}", A)
        set_clock(step_s)
        await _see_the_step(locks, began + step_s)
        forward = [await tried(locks, f"forward-{n}", B) for n in range(rounds)]

        short = [await eventually(locks, f"back-{n}", A, TTL_S) for n in range(rounds)]
        set_clock(-step_s)
        await _see_the_step(locks, began - step_s)
        await until(short[-1].sent_at + TTL_S + LATE_S)
        backward = [await tried(locks, f"back-{n}", B) for n in range(rounds)]
    early = sum(isinstance(outcome, Grant) for outcome in forward)
    late = sum(outcome is None for outcome in backward)
    return {"leases": 2 * rounds, "steps": f"+{step_s} s, -{step_s} s", "ended_early": early, "ended_late": late}


async def _see_the_step(locks: Locks, expected_s: float) -> None:
    """Without this the check could pass because nothing happened."""
    for _ in range(LOOKS_MAX):
        if abs(await locks.wall_s() - expected_s) < 60:
            return
        await asyncio.sleep(LATE_S)
    raise AssertionError("the step of the wall clock has not reached the server")


async def second_server(peer: Peer, *, rounds: int, progress: Progress) -> Counted:
    """Two servers on the same data: one refuses to start, or both must still grant to one alone."""
    second = peer.second()
    if second is None:
        return {"second_server": NOT_OFFERED}
    try:
        started = await second.start()
        async with aclosing(peer.locks()) as first, aclosing(second.locks()) as other:
            counted = await race([first, other] if started else [first], rounds=rounds, progress=progress)
    finally:
        second.kill()
    return {"second_server": "serves" if started else "refuses to start", **counted}


async def authority(locks: Locks, *, rounds: int) -> Counted:
    """What must be refused: another's hand on a lease, and a ttl that has no end or no length."""
    counted = {
        "rounds": rounds,
        "renewed_by_another": 0,
        "released_by_another": 0,
        "granted_for_a_negative_ttl": 0,
        "granted_for_a_ttl_of_zero": 0,
    }
    for n in range(rounds):
        grant = await eventually(locks, f"mine-{n}", A)
        note(counted, "renewed_by_another", await locks.renew(locks.as_stranger(grant, holder=B), ttl_s=LONG_TTL_S))
        await locks.release(locks.as_stranger(grant, holder=B))
        note(counted, "released_by_another", await locks.acquire(f"mine-{n}", holder=C, ttl_s=LONG_TTL_S) is not None)
        await locks.release(grant)
        note(counted, "granted_for_a_negative_ttl", isinstance(await tried(locks, f"negative-{n}", A, -5.0), Grant))
        note(counted, "granted_for_a_ttl_of_zero", isinstance(await tried(locks, f"zero-{n}", A, 0.0), Grant))
    return counted
