"""Every route that the server has, in one table."""

from openintent.server.routes import intents, leases, system
from openintent.server.routing import Router

ROUTER = Router([*leases.ROUTES, *intents.ROUTES, *system.ROUTES])
