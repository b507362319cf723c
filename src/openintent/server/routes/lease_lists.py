"""Leases and queues, looked at: one, all of a space, all there are."""

from typing import Final

from openintent.core.answers import Ended, Leases, Lost, Queue, Reply, Seen
from openintent.core.commands import GetLease, ListLeases, ListQueue
from openintent.model import Lease
from openintent.server import problems, query
from openintent.server.exchange import Exchange
from openintent.server.service import Service
from openintent.spaces import home_of
from openintent.wire import AllLeasesQuery, LeaseList, LeasesQuery, LeaseView, QueueQuery, QueueView

ENDS: Final = ("lease_released", "coordinator.failed_over", "coordinator.replaced")  # events that end a lease


async def get_lease(service: Service, exchange: Exchange, space: str | None, lease_id: str) -> None:
    reply = service.apply(GetLease(lease_id=lease_id, space=space))
    answer = reply.answer
    history = service.grantor.history
    lease = answer.lease if isinstance(answer, Seen | Lost) else None
    if isinstance(answer, Ended):
        lease = await history.ended_lease(answer)
    if lease is None:
        raise problems.Refused(404, problems.not_found("lease"))
    # Shown as it is now: while the log is read, the ledger goes on, and what it does may not be durable yet.
    shown = service.views.lease(lease, now_ms=service.grantor.now_ms)
    await service.log_complete()
    events = await history.lease_events(home_of(lease.space), lease_id)
    service.show(exchange, reply, service.views.story(shown, events))


def list_leases(service: Service, exchange: Exchange, space: str | None) -> None:
    wanted: LeasesQuery
    if space is None:
        everywhere, _ = query.decode(AllLeasesQuery, exchange)
        wanted, space = everywhere, everywhere.space
    else:
        wanted, _ = query.decode(LeasesQuery, exchange)
    command = ListLeases(
        space=space, scope=wanted.scope, holder=wanted.agent_id, after_token=wanted.after, limit=wanted.limit
    )
    if wanted.status == "all" and space is None:
        raise problems.not_offered("status", "ended leases are listed for one space at a time", part="query")
    reply = service.apply(command)
    if not isinstance(reply.answer, Leases):
        service.show_refusal(exchange, reply)
    elif wanted.status == "all":
        service.run(exchange, _show_all(service, exchange, reply, command))
    else:
        _show_leases(service, exchange, reply, reply.answer.leases, more=reply.answer.more)


def _show_leases(service: Service, exchange: Exchange, reply: Reply, leases: list[Lease], *, more: bool) -> None:
    shown = _shown(service, leases)
    service.show(exchange, reply, LeaseList(shown, _next(shown, more=more)))


def _next(live: list[LeaseView], *, more: bool) -> str | None:
    return str(live[-1].token) if more else None


def _shown(service: Service, leases: list[Lease]) -> list[LeaseView]:
    now_ms = service.grantor.now_ms
    return [service.views.lease(lease, now_ms=now_ms) for lease in leases]


async def _show_all(service: Service, exchange: Exchange, reply: Reply, command: ListLeases) -> None:
    """The live ones, and of the ended ones the newest, as far as they fit on a page."""
    live = _shown(service, reply.answer.leases)  # before anything is awaited, as in `get_lease`
    following = _next(live, more=reply.answer.more)
    ids = {lease.id for lease in live}
    assert command.space is not None
    await service.log_complete()
    # A coordinator's lease ends in the log of what it coordinates, under names of its own.
    ends = await service.grantor.history.events(
        home_of(command.space),
        limit=max(0, command.limit - len(live)),
        newest_first=True,
        types=ENDS,
        where=lambda end: end.lease is not None and end.lease.id not in ids and _wanted(end.lease, command),
    )
    ended = _shown(service, [end.lease for end in ends if end.lease is not None])
    service.show(exchange, reply, LeaseList(sorted([*live, *ended], key=lambda lease: lease.token), following))


def _wanted(lease: Lease, command: ListLeases) -> bool:
    return (
        lease.space == command.space
        and command.scope in (None, lease.scope)
        and command.holder in (None, lease.holder)
        and lease.token > command.after_token
    )


def list_queue(service: Service, exchange: Exchange, space: str) -> None:
    wanted, ignored = query.decode(QueueQuery, exchange)
    reply = service.apply(ListQueue(space=space, scope=wanted.scope))
    answer = reply.answer
    if not isinstance(answer, Queue):
        service.show_refusal(exchange, reply)
        return
    shown = [service.views.waiter(place, waiter, now_ms=answer.now_ms) for place, waiter in answer.places]
    service.show(exchange, reply, QueueView(shown), extra=ignored)
