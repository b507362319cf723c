"""Is it alive, is it ready, what is it."""

import asyncio
from typing import Final

from openintent.server.exchange import Exchange
from openintent.server.metrics import MEDIA, text
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.version import __version__
from openintent.wire import API, AliveView, ConfigView, DiscoveryView, ReadyView, VersionView

PROTOCOL_VERSION: Final = "0.1"
CAPABILITIES: Final = (
    "intents",
    "intent-graphs",
    "events",
    "state-patches",
    "optimistic-concurrency",
    "leasing",
    "fencing-tokens",
    "lease-queues",
    "coordinators",
    "portfolios",
    "agent-registry",
    "assignments",
    "governance",
    "governance-enforcement",
    "arbitration",
    "decisions",
    "subscriptions",
)


def livez(service: Service, exchange: Exchange) -> None:
    exchange.conclude_at_once(200, service.encode({"status": "alive"}))


def readyz(service: Service, exchange: Exchange) -> None:
    cluster = service.cluster
    cluster.hear(exchange.headers)
    ready = cluster.leader_url is not None
    shown = {
        "status": "ready" if ready else "not ready",
        "role": cluster.role,
        "term": service.grantor.newest_term,
    }
    exchange.conclude_at_once(200 if ready else 503, service.encode(shown))


def version(service: Service, exchange: Exchange) -> None:
    shown = {"name": "openintent-leases", "version": __version__, "term": service.grantor.term}
    exchange.conclude_at_once(200, service.encode(shown))


def metrics(service: Service, exchange: Exchange) -> None:
    exchange.conclude_at_once(200, text(service))


def discovery(service: Service, exchange: Exchange) -> None:
    """What OpenIntent's clients look for: where things are, and what is offered. Nothing that is not is named."""
    shown = {
        "name": "openintent-leases",
        "version": __version__,
        "protocolVersion": PROTOCOL_VERSION,
        "apiBaseUrl": API,
        "openApiUrl": "/openapi.json",
        "rfcUrls": {},
        "endpoints": {name: f"{API}/{name}" for name in ("intents", "portfolios", "agents", "coordinators", "leases")},
        "capabilities": list(CAPABILITIES),
    }
    exchange.conclude_at_once(200, service.encode(shown))


def config(service: Service, exchange: Exchange) -> None:
    """Public limits, so that a client need not find them by running into them."""
    shown = {
        "protocol_version": PROTOCOL_VERSION,
        "suspension": {"default_retry_policy": None},
        "limits": service.limits,
    }
    exchange.conclude_at_once(200, service.encode(shown))


async def openapi(service: Service, exchange: Exchange) -> None:
    """The description of all this. It stays the same while the server runs, so a reader need not load it twice."""
    from openintent.server.openapi import served  # noqa: PLC0415  # few ask for it, and it looks at every route

    found = await asyncio.to_thread(served, service.router, service.limits)
    lines = b"etag: %b\r\ncache-control: no-cache\r\n" % found.etag
    known = exchange.headers.get(b"if-none-match") == found.etag
    exchange.conclude_at_once(304 if known else 200, b"" if known else found.payload, extra=lines)


ROUTES: Final = [
    Route("GET", "/livez", livez, "Say whether it is alive", open=True, view=AliveView, name="is_alive"),
    Route("GET", "/readyz", readyz, "Say whether it serves", open=True, view=ReadyView, name="is_ready"),
    Route("GET", "/version", version, "Say what it is", open=True, view=VersionView, name="get_version"),
    Route(
        "GET",
        "/.well-known/openintent.json",
        discovery,
        "Say what is offered",
        open=True,
        view=DiscoveryView,
        name="discover",
    ),
    Route("GET", "/metrics", metrics, "Tell how it is, for Prometheus", media=MEDIA, name="get_metrics"),
    Route("GET", "/openapi.json", openapi, "Describe the interface", open=True, name="get_openapi"),
    Route("GET", "server/config", config, "Read what clients may know", view=ConfigView, name="get_config"),
]
