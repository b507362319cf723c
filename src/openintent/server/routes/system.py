"""Is it alive, is it ready, what is it."""

from typing import Final

from openintent.server.exchange import Exchange
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.version import __version__


def livez(service: Service, exchange: Exchange) -> None:
    exchange.conclude_at_once(200, service.encode({"status": "alive"}))


def readyz(service: Service, exchange: Exchange) -> None:
    ready = service.grantor.serving
    shown = {"status": "ready" if ready else "not ready", "term": service.grantor.term}
    exchange.conclude_at_once(200 if ready else 503, service.encode(shown))


def version(service: Service, exchange: Exchange) -> None:
    shown = {"name": "openintent-leases", "version": __version__, "term": service.grantor.term}
    exchange.conclude_at_once(200, service.encode(shown))


ROUTES: Final = [
    Route("GET", "/livez", livez),
    Route("GET", "/readyz", readyz),
    Route("GET", "/version", version),
]
