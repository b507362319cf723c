"""Every route that the server has, in one table."""

from typing import Final

from openintent.server.routes import (
    agents,
    batches,
    cluster,
    coordinators,
    governance,
    intents,
    lease_table,
    lineage,
    portfolios,
    streams,
    system,
)
from openintent.server.routing import Router

ROUTES: Final = [
    *lease_table.ROUTES,
    *intents.ROUTES,
    *lineage.ROUTES,
    *governance.ROUTES,
    *portfolios.ROUTES,
    *coordinators.ROUTES,
    *agents.ROUTES,
    *batches.ROUTES,
    *streams.ROUTES,
    *cluster.ROUTES,
    *system.ROUTES,
]

ROUTER: Final = Router(ROUTES)
