"""Coordinator leases over HTTP: ordinary leases, in the space of whoever coordinates an intent or a portfolio."""

from functools import partial
from typing import Any, Final

from openintent.core.answers import Ended, Granted, Leases, Lost, Released, Reply, Seen
from openintent.core.commands import GetLease, ListLeases, Release, Renew, Revoke
from openintent.model import Ask, Lease
from openintent.server import bodies, problems
from openintent.server.exchange import Exchange
from openintent.server.routes.lease_lists import list_queue
from openintent.server.routes.lease_table import ACQUIRE_CODES, ACQUIRE_READS
from openintent.server.routes.leases import acquire_or_wait, give_up
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.spaces import (
    COORDINATOR_SPACE,
    INTENT_SPACE,
    PORTFOLIO_SPACE,
    coordinator_space,
)
from openintent.wire import (
    AttemptQuery,
    CoordinatorBody,
    CoordinatorView,
    DoneView,
    QueueQuery,
    QueueView,
    RenewBody,
)

EVERYTHING: Final = "*"  # the one scope that there is


def create(service: Service, exchange: Exchange) -> None:
    body, ignored = bodies.decode_loosely(CoordinatorBody, exchange.body)
    checks = bodies.Checks(service.limits)
    ask = _ask(checks, body, bodies.agent(exchange, service.limits, named=body.agent_id))
    wait_ms = checks.wait_ms(body.wait_seconds) if body.wait_seconds else 0
    checks.settle()
    acquire_or_wait(service, exchange, ask, wait_ms, partial(_show_acquired, ignored))


def _ask(checks: bodies.Checks, body: CoordinatorBody, holder: str) -> Ask:
    if (body.intent_id is None) == (body.portfolio_id is None):
        raise problems.invalid(([], "give either intent_id or portfolio_id", "value"))
    checks.name("role", body.role)
    checks.agents(body.agent_id)
    checks.agents(body.supervisor_id, field="supervisor_id")
    checks.size("guardrails", body.guardrails, checks.limits.metadata_bytes_max)
    checks.size("metadata", body.metadata, checks.limits.metadata_bytes_max)
    if body.heartbeat_interval_seconds is not None:
        checks.ms("heartbeat_interval_seconds", body.heartbeat_interval_seconds, least_ms=1, most_ms=86_400_000)
    return Ask(
        space=coordinator_space(intent_id=body.intent_id, portfolio_id=body.portfolio_id),
        scope=EVERYTHING,
        holder=holder,
        ttl_ms=checks.ttl_ms(body, checks.limits.ttl_ms_default),
        metadata=_said(body),
    )


def _said(body: CoordinatorBody) -> dict[str, Any]:
    """What a coordinator says of itself, as its lease carries it."""
    return {
        "role": body.role,
        "supervisor_id": body.supervisor_id,
        "coordinator_type": body.coordinator_type,
        "guardrails": body.guardrails,
        "heartbeat_interval_seconds": body.heartbeat_interval_seconds,
        "metadata": body.metadata,
    }


def _show_acquired(ignored: bytes, service: Service, exchange: Exchange, reply: Reply) -> None:
    answer = reply.answer
    if isinstance(answer, Granted):
        now_ms = answer.lease.deadline_ms - answer.remaining_ms
        shown = service.views.coordinator(answer.lease, now_ms=now_ms, waited_ms=answer.waited_ms)
        service.show(exchange, reply, shown, extra=ignored)
    elif isinstance(answer, Ended):
        service.run(exchange, _show_old(service, exchange, reply, answer, lost=True))
    else:
        service.show_refusal(exchange, reply)


# One


def get(service: Service, exchange: Exchange, lease_id: str) -> None:
    _show(service, exchange, service.apply(GetLease(lease_id=lease_id)), lost=False)


def renew(service: Service, exchange: Exchange, lease_id: str) -> None:
    ttl_ms = service.renewals.read(exchange.body)
    holder = bodies.agent(exchange, service.limits)
    _require_coordinator(service, lease_id)
    reply = service.apply(Renew(lease_id=lease_id, holder=holder, ttl_ms=ttl_ms))
    _show(service, exchange, reply, lost=True)


def end(service: Service, exchange: Exchange, lease_id: str) -> None:
    """Its holder gives it back; its supervisor takes it away."""
    agent = bodies.agent(exchange, service.limits)
    lease = _require_coordinator(service, lease_id)
    if lease is not None and lease.holder != agent and (lease.metadata or {}).get("supervisor_id") == agent:
        command: Release | Revoke = Revoke(lease_id=lease_id, actor=agent, reason="replaced by its supervisor")
    else:
        command = Release(lease_id=lease_id, holder=agent)
    _show(service, exchange, service.apply(command), lost=False)


def _require_coordinator(service: Service, lease_id: str) -> Lease | None:
    """The live lease, if it is a coordinator's; others have nothing to do here."""
    seen = service.apply(GetLease(lease_id=lease_id)).answer
    if isinstance(seen, Seen | Lost) and not seen.lease.space.startswith(COORDINATOR_SPACE):
        raise problems.Refused(404, problems.not_found("coordinator"))
    return seen.lease if isinstance(seen, Seen) else None


def _show(service: Service, exchange: Exchange, reply: Reply, *, lost: bool) -> None:
    """A coordinator's lease; `lost` says that one which has ended is refused."""
    answer = reply.answer
    if isinstance(answer, Ended):
        service.run(exchange, _show_old(service, exchange, reply, answer, lost=lost))
    elif isinstance(answer, Seen | Released) or (isinstance(answer, Lost) and not lost):
        _show_one(service, exchange, reply, answer.lease)
    else:
        service.show_refusal(exchange, reply)


async def _show_old(service: Service, exchange: Exchange, reply: Reply, meant: Ended, *, lost: bool) -> None:
    """One that only the log still knows, or nobody."""
    lease = await service.grantor.history.ended_lease(meant)
    if lease is None or not lease.space.startswith(COORDINATOR_SPACE):
        raise problems.Refused(404, problems.not_found("coordinator"))
    _show(service, exchange, Reply(Lost(lease), reply.after, reply.rev, reply.term), lost=lost)


def _show_one(service: Service, exchange: Exchange, reply: Reply, lease: Lease) -> None:
    if not lease.space.startswith(COORDINATOR_SPACE):
        raise problems.Refused(404, problems.not_found("coordinator"))
    service.show(exchange, reply, service.views.coordinator(lease, now_ms=service.grantor.now_ms))


# All


def list_all(service: Service, exchange: Exchange, space: str) -> None:
    reply = service.apply(ListLeases(space=space))
    if not isinstance(reply.answer, Leases):
        service.show_refusal(exchange, reply)
        return
    now_ms = service.grantor.now_ms
    service.show(exchange, reply, [service.views.coordinator(lease, now_ms=now_ms) for lease in reply.answer.leases])


def _in(base: str, space: str) -> list[Route]:
    every, named = f"{base}/coordinators", f"{space.removesuffix(':')}_coordinator"
    space = COORDINATOR_SPACE + space
    return [
        Route(
            "GET",
            every,
            list_all,
            "List who coordinates",
            space=space,
            view=list[CoordinatorView],
            name=f"list_{named}s",
        ),
        Route(
            "DELETE",
            every,
            give_up,
            "Give up an attempt",
            space=space,
            query=AttemptQuery,
            view=DoneView,
            needs=_AGENT,
            name=f"give_up_{named}_attempt",
        ),
        Route(
            "GET",
            f"{every}/queue",
            list_queue,
            "List who waits",
            space=space,
            query=QueueQuery,
            view=QueueView,
            name=f"list_{named}_queue",
        ),
    ]


def _staying(method: str, pattern: str, name: str) -> Route:
    return Route(
        method,
        pattern,
        renew,
        "Stay its coordinator",
        body=RenewBody,
        view=CoordinatorView,
        needs=_AGENT,
        codes=("lease_lost",),
        name=name,
    )


_ONE: Final = "coordinators/{}"

_AGENT: Final = ("X-Agent-ID",)

ROUTES: Final = [
    Route(
        "POST",
        "coordinators",
        create,
        "Become its coordinator",
        body=CoordinatorBody,
        view=CoordinatorView,
        reads=ACQUIRE_READS,
        codes=(*ACQUIRE_CODES, "governance_violation", "not_found"),
        name="acquire_coordinator_lease",
    ),
    Route("GET", _ONE, get, "Read a coordinator's lease", view=CoordinatorView, name="get_coordinator_lease"),
    _staying("PATCH", _ONE, "renew_coordinator_lease"),
    _staying("POST", f"{_ONE}/heartbeat", "coordinator_heartbeat"),
    Route(
        "DELETE", _ONE, end, "Stop coordinating", view=CoordinatorView, needs=_AGENT, name="release_coordinator_lease"
    ),
    *_in("intents/{}", INTENT_SPACE),
    *_in("portfolios/{}", PORTFOLIO_SPACE),
]
