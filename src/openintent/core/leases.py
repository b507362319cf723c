"""Leases: acquire, renew, release, revoke, lapse, heartbeat.

By the ledger's time overlapping leases of different agents are never alive together; a lease that ended never lives
again; at its deadline a lease is already dead. What is not promised here: that the holder knows. It counts for
itself, from when it sent its request (`trust.py`).
"""

from collections.abc import Sequence

from openintent.core import agents, attempts, governance, grants, preempting, waiting
from openintent.core.answers import (
    AttemptReused,
    Done,
    Ended,
    Granted,
    Held,
    LimitReached,
    Lost,
    Missing,
    Queued,
    Released,
    Reply,
    Seen,
    Verdicts,
)
from openintent.core.books import Books, Space, checkpoint_key, cooldown_key
from openintent.core.commands import (
    Acquire,
    GetLease,
    GiveUp,
    Gone,
    Heartbeat,
    Progress,
    Release,
    Renew,
    Revoke,
)
from openintent.core.looking import missing_owner
from openintent.core.values import fingerprint
from openintent.model import Attempt, Checkpoint, Cooldown, Lease, LeaseEnd
from openintent.spaces import COORDINATOR_SPACE, agent_space, home_of

# Acquiring


def acquire(books: Books, command: Acquire) -> Reply:
    ask = command.ask
    # In a space that is in use there is no need to ask: an intent cannot go while anything is held in it.
    missing = missing_owner(books, ask.space) if ask.space not in books.spaces else None
    if missing is not None:
        return books.reply(missing)
    print_ = b""
    if command.attempt is not None:
        print_ = fingerprint("lease", ask)
        known = attempts.find(books, ask.holder, command.attempt)
        if known is not None:
            return _repeat(books, command, known, print_)
        if attempts.full(books, command.attempt):
            return books.reply(LimitReached("attempts", books.limits.attempts_max))
    # Only now: a policy takes nothing back, so a repeat still gets what was granted before it came.
    if books.governed and (refusal := governance.forbids_lease(books, ask)) is not None:
        return books.reply(refusal)
    return _acquire_anew(books, command, print_)


def _acquire_anew(books: Books, command: Acquire, print_: bytes) -> Reply:
    ask = command.ask
    space = books.space(ask.space)
    why = waiting.obstacle(books, space, ask)
    if why is not None:
        return _refuse(books, command, why, print_)
    if (full := grants.no_room(books, ask.holder)) is not None:
        books.tidy(space)
        return books.reply(full)
    lease = grants.grant(books, space, ask, command.lease_id, command.attempt)
    if command.attempt is not None:
        attempts.remember(books, ask.holder, command.attempt, kind="lease", print_=print_, target=lease.id)
    return books.reply(Granted(lease, 0, lease.deadline_ms - books.now_ms), lease.batch)


def _refuse(books: Books, command: Acquire, why: waiting.Obstacle, print_: bytes) -> Reply:
    """It cannot be granted now: say so, or let it wait."""
    if isinstance(why, Held) and why.yours:
        return _own_again(books, command, why.lease, print_)
    outranked = preempting.outranked(books, command.ask) if command.preempt else []
    if isinstance(outranked, LimitReached):
        return books.reply(outranked)
    if command.wait_ms > 0:
        reply = waiting.enqueue(books, command, print_)
        if isinstance(reply.answer, Queued):  # else nothing may have happened
            preempting.mark(books, command.ask, outranked)
        return reply
    if outranked:
        preempting.mark(books, command.ask, outranked)
        return books.reply(preempting.held_until_the_end(books, command.ask, outranked))
    return books.reply(why, after=why.lease.batch if isinstance(why, Held) else None)


def _own_again(books: Books, command: Acquire, own: Lease, print_: bytes) -> Reply:
    """The agent already holds this very scope."""
    remaining_ms = books.remaining_ms(own)
    if not command.ask.reentrant:
        return books.reply(Held(own, remaining_ms, 0, yours=True), after=own.batch)
    holder, key = command.ask.holder, command.attempt
    attempts.remember(books, holder, key, kind="lease", print_=print_, target=own.id)
    attempts.expire(books, holder, key)
    return books.reply(Granted(own, 0, remaining_ms), after=own.batch if key is None else None)


def _repeat(books: Books, command: Acquire, known: Attempt, print_: bytes) -> Reply:
    """The same attempt again: it acts no second time, and is told how things are now."""
    if known.print != print_:
        return books.reply(AttemptReused(known.key))
    waiter = books.waiters.get(known.target)
    if waiter is not None:
        reply = waiting.attend(books, waiter, command)
        if command.preempt:
            preempting.press(books, waiter.ask)
        waiting.pump(books, books.space(waiter.ask.space), waiter.ask.scope)
        return reply
    lease = books.leases.get(known.target)
    if lease is not None:
        return books.reply(Granted(lease, 0, books.remaining_ms(lease)), after=max(lease.batch, known.batch))
    return _ended(books, known.target, command.ask.holder)


def give_up(books: Books, command: GiveUp) -> Reply:
    known = attempts.find(books, command.holder, command.attempt)
    if known is None or known.kind != "lease":
        return books.reply(Missing("attempt"))
    waiter, lease = books.waiters.get(known.target), books.leases.get(known.target)
    if waiter is not None and waiter.ask.space == command.space:
        waiting.leave(books, waiter)
    elif lease is not None and lease.space == command.space and lease.attempt == command.attempt:
        end(books, lease, "released", "released", command.holder)
    elif known.target in books.waiters or (lease is not None and lease.space != command.space):
        return books.reply(Missing("attempt"))
    return books.reply(Done())  # ended already, or it only got back what an earlier attempt was granted


def gone(books: Books, command: Gone) -> Reply:
    waiter = books.requests.get(command.request)
    if waiter is not None:
        waiting.step_away(books, waiter)
    return books.reply(Done())


# Holding


def _held_by_caller(books: Books, command: Renew | Progress | Release) -> Lease | Reply:
    """The live lease that the command names, or the answer for whoever does not hold it."""
    lease = books.leases.get(command.lease_id)
    if lease is None:
        return _ended(books, command.lease_id, command.holder, command.space)
    space = command.space
    if lease.holder != command.holder or (space is not None and space != lease.space):
        return books.reply(Missing("lease"))
    return lease


def renew(books: Books, command: Renew) -> Reply:
    lease = _held_by_caller(books, command)
    if not isinstance(lease, Lease):
        return lease
    _extend(books, lease, command.ttl_ms or lease.ttl_ms)
    return books.reply(Seen(lease, lease.deadline_ms - books.now_ms), lease.batch)


def _extend(books: Books, lease: Lease, ttl_ms: int) -> None:
    """Promise more time. A renewal is written down only if a restart would otherwise give back less than promised."""
    lease.deadline_ms = grants.promised_end_ms(lease, books.now_ms + ttl_ms)
    lease.ttl_ms = ttl_ms
    if ttl_ms > lease.ttl_ms_max:
        lease.ttl_ms_max = ttl_ms
        grants.keep(books, lease)


def progress(books: Books, command: Progress) -> Reply:
    """The work goes on, says its holder; and perhaps what the next one should know if it does not."""
    lease = _held_by_caller(books, command)
    if not isinstance(lease, Lease):
        return lease
    if not command.keep_checkpoint:
        room = books.limits.checkpoints_per_space_max
        if command.checkpoint is not None and len(books.space(lease.space).checkpoints) >= room:
            return books.reply(LimitReached("checkpoints in this space", room))
        lease.checkpoint = command.checkpoint
        grants.keep(books, lease)
        books.log("task.progress", home_of(lease.space), lease.holder, payload=_progress_payload(lease))
    if lease.progress_ms is not None:
        lease.progress_end_ms = books.now_ms + lease.progress_ms
    _extend(books, lease, lease.ttl_ms)
    return books.reply(Seen(lease, books.remaining_ms(lease)), after=lease.batch)


def _progress_payload(lease: Lease) -> dict[str, object]:
    return {"lease_id": lease.id, "scope": lease.scope, "token": lease.token, "checkpoint": lease.checkpoint}


def heartbeat(books: Books, command: Heartbeat) -> Reply:
    """Renew exactly the leases that are listed: one whose holder forgot it must not live for ever."""
    verdicts = Verdicts(command.held, [], {}, 0)
    after, shortest_ms = _renew_listed(books, command, verdicts)
    verdicts.next_ms = shortest_ms // 3
    agent = books.agents.get(command.holder)
    if agent is not None:  # its status is only a mark: no renewal waits until a change of it is durable
        verdicts.next_ms = min(verdicts.next_ms, agent.heartbeat_ms)
        verdicts.status = agents.hear(books, agent, command.load)
    return books.reply(verdicts, after)


def _renew_listed(books: Books, command: Heartbeat, verdicts: Verdicts) -> tuple[int, int]:
    """The batch that the verdicts wait for, and the shortest ttl. There may be thousands: a call each is much."""
    now_ms, left_ms = books.now_ms, verdicts.left_ms
    after, shortest_ms = 0, books.limits.ttl_ms_default
    for lease in _listed(books, command):
        if lease is None or lease.status != "active":
            verdicts.lost[len(left_ms)] = _how_lost(books, command.holder, *command.held[len(left_ms)])
            left_ms.append(0)
            after = books.written
            continue
        ttl_ms = lease.ttl_ms
        end_ms = now_ms + ttl_ms
        if lease.hold_end_ms is not None or lease.progress_end_ms is not None or end_ms < lease.deadline_ms:
            end_ms = grants.promised_end_ms(lease, end_ms)
            if lease.preempt_reason is not None:
                verdicts.asked[len(left_ms)] = lease.preempt_reason
            left_ms.append(end_ms - now_ms)
        else:
            left_ms.append(ttl_ms)
        lease.deadline_ms = end_ms
        if lease.batch > after:  # noqa: PLR1730  # as above
            after = lease.batch
        if ttl_ms < shortest_ms:  # noqa: PLR1730
            shortest_ms = ttl_ms
    return after, shortest_ms


def _listed(books: Books, command: Heartbeat) -> Sequence[Lease | None]:
    """The leases that are meant, and None for what the holder never had. Those of the very same list are known."""
    holder, held = command.holder, command.held
    known = books.beats.get(holder)
    if known is not None and known[0] is held:
        return known[1]
    leases = [_held_under(books, holder, lease_id, token) for lease_id, token in held]
    found = [lease for lease in leases if lease is not None]
    if found and len(found) == len(held):  # then it has leases; with its last one this goes
        books.beats[holder] = held, found
    return leases


def _held_under(books: Books, holder: str, lease_id: str, token: int) -> Lease | None:
    lease = books.leases.get(lease_id)
    return lease if lease is not None and lease.holder == holder and lease.token == token else None


def _how_lost(books: Books, holder: str, lease_id: str, token: int) -> str:
    """Why the holder of this token has no such lease any more, as far as memory tells and it is his to know."""
    lease = books.ended_lease(lease_id)
    if lease is None or lease.holder != holder or lease.token != token:
        return "unknown"
    return lease.ended_reason or "unknown"


# Ending


def release(books: Books, command: Release) -> Reply:
    """Give it back. Releasing what has already ended succeeds and changes nothing."""
    lease = _held_by_caller(books, command)
    if not isinstance(lease, Lease):
        return lease
    end(books, lease, "released", "released", command.holder)
    return books.reply(Released(lease), lease.batch)


def revoke(books: Books, command: Revoke) -> Reply:
    lease = books.leases.get(command.lease_id)
    if lease is None:
        return _ended(books, command.lease_id, None, command.space)
    if command.space not in (None, lease.space):
        return books.reply(Missing("lease"))
    end(books, lease, "revoked", "revoked", command.actor, note=command.reason)
    return books.reply(Seen(lease, 0), after=lease.batch)


def lapse(books: Books, lease: Lease) -> None:
    """Time took it."""
    reason = "expired"
    if lease.preempt_reason is not None:
        reason = "preempted"
    elif lease.deadline_ms == lease.hold_end_ms:
        reason = "max_hold"
    elif lease.deadline_ms == lease.progress_end_ms:
        reason = "no_progress"
    books.rev += 1
    books.lapsed += 1
    end(books, lease, "expired", reason, lease.holder)


def end(books: Books, lease: Lease, status: str, reason: str, actor: str, note: str | None = None) -> None:
    """However a lease ends, it ends here, once; then whoever waited for it may go."""
    lease.status, lease.ended_reason, lease.ended_at_ms = status, reason, books.date_ms
    if note is not None:
        lease.ended_note = note
    holder, space = lease.holder, books.spaces[lease.space]
    space.leases.remove(lease.scope)
    del books.leases[lease.id]
    left = books.held[holder] - 1
    if left:
        books.held[holder] = left
    else:
        del books.held[holder]
        books.beats.pop(holder, None)
    books.timers.died(lease)
    _write_end(books, space, lease, actor)
    if lease.checkpoint is not None or lease.cooldown_ms:
        _hand_on(books, space, lease)
    waiting.pump(books, space, lease.scope)
    books.tidy(space)


def _write_end(books: Books, space: Space, lease: Lease, actor: str) -> None:
    lease.batch = books.batch
    books.drop("l/" + lease.id)
    # Whoever loses a lease without having given it back should find that in the log of his own.
    also = None if lease.status == "released" else agent_space(lease.holder)
    event = books.log(_end_type(lease), space.home, actor, None, lease, also)
    books.ends.append(LeaseEnd(lease.id, space.home, event.seq))
    if lease.attempt is not None:
        attempts.expire(books, lease.holder, lease.attempt)
    (books.released if lease.status == "released" else books.ended)[lease.id] = lease


def _end_type(lease: Lease) -> str:
    """OpenIntent has names of its own for how a coordinator ends."""
    if lease.status == "released" or not lease.space.startswith(COORDINATOR_SPACE):
        return "lease_released"
    return "coordinator.failed_over" if lease.status == "expired" else "coordinator.replaced"


def _hand_on(books: Books, space: Space, lease: Lease) -> None:
    """What a lease leaves behind: its note for the next holder, and perhaps a scope that stays closed for a while."""
    if lease.checkpoint is not None:
        space.checkpoints[lease.scope] = lease.checkpoint
        books.keep(checkpoint_key(lease.space, lease.scope), Checkpoint(lease.checkpoint))
    if lease.cooldown_ms and lease.status != "released":
        until_ms = books.now_ms + lease.cooldown_ms
        closed = Cooldown(space=lease.space, scope=lease.scope, holder=lease.holder, until_ms=until_ms)
        space.cooldowns.add(lease.scope, "", closed)
        books.timers.add(closed)
        books.keep(cooldown_key(lease.space, lease.scope), closed)


def reopen(books: Books, closed: Cooldown) -> None:
    """A cooldown is over."""
    space = books.space(closed.space)
    space.cooldowns.remove(closed.scope)
    closed.over = True
    books.drop(cooldown_key(closed.space, closed.scope))
    books.rev += 1
    waiting.pump(books, space, closed.scope)
    books.tidy(space)


def _ended(books: Books, lease_id: str, holder: str | None, space: str | None = None) -> Reply:
    """An ended lease, if it is the caller's; one that memory no longer has is left to whoever can read the log."""
    lease, meant = books.ended_lease(lease_id), Ended(lease_id, holder, space)
    if lease is None:
        return books.reply(meant)
    return books.reply(Lost(lease), after=lease.batch) if meant.fits(lease) else books.reply(Missing("lease"))


# Looking


def get_lease(books: Books, command: GetLease) -> Reply:
    lease = books.leases.get(command.lease_id)
    if lease is None:
        return _ended(books, command.lease_id, None, command.space)
    if command.space not in (None, lease.space):
        return books.reply(Missing("lease"))
    return books.reply(Seen(lease, books.remaining_ms(lease)), after=lease.batch)
