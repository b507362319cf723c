"""The client for programs without an event loop. `aio.py` has its twin: the same methods, to be awaited."""

from collections.abc import Sequence
from typing import Self
from weakref import WeakSet

from openintent.client.sync.agents import Agents
from openintent.client.sync.coordinators import Coordinators
from openintent.client.sync.events import Events
from openintent.client.sync.governance import Governance
from openintent.client.sync.intents import Intents
from openintent.client.sync.lineage import Lineage
from openintent.client.sync.portfolios import Portfolios
from openintent.client.transport import HttpTransport


class OpenIntentClient(Intents, Lineage, Governance, Coordinators, Portfolios, Agents, Events):
    """Talks to a server, or to several of which any may answer. Threads may share one client.

    `base_url` is `OPENINTENT_URL` if not given, else `http://localhost:8000`; `api_key` is `OPENINTENT_API_KEY`.
    Without an `agent_id` one is made up, so that two programs are two agents. `timeout` is how many seconds one
    method may take, with all its repeats, besides the time that it was asked to wait for a lease. No try is given less
    than one; and to give up a lease that it may have got, after no answer came, a method may take two more.
    """

    def __init__(
        self,
        base_url: str | Sequence[str] | None = None,
        api_key: str | None = None,
        agent_id: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        super().__init__(base_url, api_key, agent_id, timeout)
        self._transport = HttpTransport(self._addresses, self._holder.identity, timeout_s=timeout)
        self._streams = WeakSet()

    def close(self) -> None:
        """End what is kept alive, the streams and the connections. A lease that is still held lapses."""
        self._holder.keeper.close()
        for stream in list(self._streams):
            stream.close()
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
