"""Leases over HTTP: one set of handlers for leases in intents, in plain spaces, and by their id alone."""

import random
from functools import partial

from msgspec import UNSET

from openintent.core.answers import (
    Done,
    Ended,
    Granted,
    Lost,
    Released,
    Reply,
    Seen,
    TokenChecked,
    Verdicts,
)
from openintent.core.commands import (
    Acquire,
    CheckToken,
    GiveUp,
    Heartbeat,
    Progress,
    Release,
    Renew,
    Revoke,
)
from openintent.core.scopes import problem as scope_problem
from openintent.model import Ask, Lease
from openintent.server import bodies, lease_texts, problems, query
from openintent.server.beats import Beat
from openintent.server.exchange import Exchange, Render
from openintent.server.ids import Ids
from openintent.server.service import Service
from openintent.wire import (
    AttemptQuery,
    DoneView,
    GuardBody,
    GuardView,
    HeartbeatView,
    ProgressBody,
    RevokeBody,
)

ids = Ids(random.Random().getrandbits)  # noqa: S311  # an id must be unique, not secret: only its holder may use it


def acquire(service: Service, exchange: Exchange, space: str) -> None:
    scope, wish = service.wishes.read(exchange.body)
    holder = bodies.agent(exchange, service.limits, wish.agent_id)
    acquire_or_wait(service, exchange, wish.ask(space, scope, holder), wish.wait_ms, _show_acquired, wish.preempt)


def acquire_or_wait(
    service: Service,
    exchange: Exchange,
    ask: Ask,
    wait_ms: int,
    show: Render,
    preempt: bool = False,  # noqa: FBT001, FBT002  # a call is quicker without names
) -> None:
    """Ask the ledger; `show` answers now, or when the wait is over."""
    key = bodies.attempt(exchange, service.limits)
    command = Acquire(ask, ids.new(service.grantor.books.now_ms), wait_ms, key, preempt)
    if wait_ms or key is not None:
        service.ask_or_wait(exchange, command, show)
    else:
        service.ask(exchange, command, show)


def _show_acquired(service: Service, exchange: Exchange, reply: Reply) -> None:
    answer = reply.answer
    if type(answer) is Granted:
        text = service.lease_texts.lease(answer.lease, answer.remaining_ms, answer.waited_ms)
        service.tell(exchange, reply, text)
    elif isinstance(answer, Ended):
        service.run(exchange, _show_ended(service, exchange, reply, answer))
    else:
        service.show_refusal(exchange, reply)


def give_up(service: Service, exchange: Exchange, space: str) -> None:
    wanted, _ = query.decode(AttemptQuery, exchange)
    key = wanted.attempt
    if key is None:
        raise problems.Refused(400, problems.plain("bad_request", "attempt: say which, or delete one lease by its id"))
    holder = bodies.agent(exchange, service.limits)
    reply = service.apply(GiveUp(space=space, holder=holder, attempt=key))
    if isinstance(reply.answer, Done):
        service.show(exchange, reply, DoneView("Attempt given up"))
    else:
        service.show_refusal(exchange, reply)


def renew(service: Service, exchange: Exchange, space: str | None, lease_id: str) -> None:
    ttl_ms = service.renewals.read(exchange.body) if exchange.body else None
    holder = bodies.agent(exchange, service.limits)
    service.ask(exchange, Renew(lease_id, holder, space, ttl_ms), _show_own)


def progress(service: Service, exchange: Exchange, space: str | None, lease_id: str) -> None:
    body = bodies.decode(ProgressBody, exchange.body)
    keep = body.checkpoint is UNSET
    if not keep:
        checks = bodies.Checks(service.limits)
        checks.size("checkpoint", body.checkpoint, service.limits.checkpoint_bytes_max)
        checks.settle()
    holder = bodies.agent(exchange, service.limits)
    note = None if keep else body.checkpoint
    command = Progress(lease_id=lease_id, holder=holder, space=space, checkpoint=note, keep_checkpoint=keep)
    service.ask(exchange, command, _show_own)


def revoke(service: Service, exchange: Exchange, space: str | None, lease_id: str) -> None:
    body = bodies.decode(RevokeBody, exchange.body)
    checks = bodies.Checks(service.limits)
    checks.name("reason", body.reason, most=service.limits.text_chars_max)
    checks.settle()
    actor = bodies.actor(exchange, service.limits, default="operator")
    service.ask(exchange, Revoke(lease_id=lease_id, actor=actor, reason=body.reason, space=space), _show_own)


def _show_own(service: Service, exchange: Exchange, reply: Reply) -> None:
    """To its holder, or to an operator."""
    answer = reply.answer
    if type(answer) is Seen:
        service.tell(exchange, reply, service.lease_texts.lease(answer.lease, answer.remaining_ms))
    elif isinstance(answer, Ended):
        service.run(exchange, _show_ended(service, exchange, reply, answer))
    else:
        service.show_refusal(exchange, reply)


async def _from_log(service: Service, meant: Ended) -> Lease:
    """A lease that only the log still knows, or nobody."""
    lease = await service.grantor.history.ended_lease(meant)
    if lease is None:
        raise problems.Refused(404, problems.not_found("lease"))
    return lease


async def _show_ended(service: Service, exchange: Exchange, reply: Reply, meant: Ended) -> None:
    lease = await _from_log(service, meant)
    service.show_refusal(exchange, Reply(Lost(lease), reply.after, reply.rev, reply.term))


def release(service: Service, exchange: Exchange, space: str | None, lease_id: str) -> None:
    holder = bodies.agent(exchange, service.limits)
    service.ask(exchange, Release(lease_id, holder, space), _show_released)


def _show_released(service: Service, exchange: Exchange, reply: Reply) -> None:
    answer = reply.answer
    if type(answer) is Released or type(answer) is Lost:
        service.tell(exchange, reply, lease_texts.released(answer.lease))
    elif isinstance(answer, Ended):
        service.run(exchange, _show_released_before(service, exchange, reply, answer))
    else:
        service.show_refusal(exchange, reply)


async def _show_released_before(service: Service, exchange: Exchange, reply: Reply, meant: Ended) -> None:
    service.tell(exchange, reply, lease_texts.released(await _from_log(service, meant)))


def heartbeat(service: Service, exchange: Exchange, agent_id: str) -> None:
    beat = service.beats.read(agent_id, exchange.body)
    bodies.agent(exchange, service.limits, agent_id)
    service.ask(exchange, Heartbeat(holder=agent_id, held=beat.held, load=beat.load), partial(_show_verdicts, beat))


def _show_verdicts(beat: Beat, service: Service, exchange: Exchange, reply: Reply) -> None:
    verdicts = reply.answer
    assert isinstance(verdicts, Verdicts)
    dates, today_ms = service.views.dates.recent, service.grantor.now_ms + service.grantor.date_offset_ms
    next_at = dates[today_ms + verdicts.next_ms]
    told = beat.told(verdicts)
    shown = HeartbeatView("ok", dates[today_ms], next_at, verdicts.next_ms / 1_000, told, verdicts.status)
    service.show(exchange, reply, shown)


def guard(service: Service, exchange: Exchange) -> None:
    body = bodies.decode(GuardBody, exchange.body)
    checks = bodies.Checks(service.limits)
    checks.space("space", body.space)
    if (wrong := scope_problem(body.scope, service.limits)) is not None:
        checks.fault("scope", wrong)
    checks.settle()
    service.ask(exchange, CheckToken(space=body.space, scope=body.scope, token=body.token), _show_checked)


def _show_checked(service: Service, exchange: Exchange, reply: Reply) -> None:
    answer = reply.answer
    assert isinstance(answer, TokenChecked)
    service.show(exchange, reply, GuardView(answer.valid, answer.live_token))
