"""Requests that arrive in one turn of the event loop are carried out together, when all of them have been read.

A processor that reads all, and then understands all, and then decides all, has what each of these needs in its caches;
one that takes each request from its bytes to its answer has to fetch everything anew for each. On 256 connections this
is worth a tenth of the acquires and half as many renewals again (docs/decisions/0011).

What is asked of the ledger by `Service.ask`, as every hot handler does, is decided in the order of arrival. On one
connection nothing overtakes anything. Nobody waits for a request that is not there yet.
"""

import asyncio
from collections.abc import Callable

from openintent.server.exchange import Exchange


class Turn:
    """One for all connections of a server."""

    def __init__(self, carry_out: Callable[[list[Exchange]], None]) -> None:
        self._carry_out = carry_out
        self._arrived: list[Exchange] = []

    def add(self, exchange: Exchange) -> None:
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self.end)
        self._arrived.append(exchange)

    def end(self) -> None:
        """Now; for whoever has something that must not overtake what has arrived. There may be nothing."""
        arrived, self._arrived = self._arrived, []
        # Whoever is gone by now has asked for nothing: they could not tell it from a request that was lost on its way.
        self._carry_out([exchange for exchange in arrived if not exchange.done])
