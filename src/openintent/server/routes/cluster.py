"""Who shares the engine, and who leads."""

from typing import Final

from openintent.server.exchange import Exchange
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.wire import ClusterView


async def cluster(service: Service, exchange: Exchange) -> None:
    shown = await service.cluster.view_of_leader(exchange.headers)
    exchange.conclude_at_once(200, service.encode(shown))


ROUTES: Final = [
    Route("GET", "cluster", cluster, "Say who leads, and who stands by", view=ClusterView, name="get_cluster"),
]
