"""What both clients are made of."""

from collections.abc import Sequence

from openintent.client import spelling
from openintent.client.holder import Holder
from openintent.client.transport import Addresses


class Front:
    def __init__(
        self,
        base_url: str | Sequence[str] | None,
        api_key: str | None,
        agent_id: str | None,
        timeout: float,
    ) -> None:
        self._addresses = Addresses(spelling.urls_of(base_url))
        agent, timeout_s = spelling.agent_id_of(agent_id), spelling.positive("timeout", timeout)
        self._holder = Holder(self._addresses.urls, spelling.key_of(api_key), agent, timeout_s=timeout_s)

    @property
    def agent_id(self) -> str:
        """Who this client is to the server."""
        return self._holder.identity().agent_id

    @property
    def base_url(self) -> str:
        """The server's address; of several, the one that was named first."""
        return self._holder.urls[0]

    def share_leases(self, other: "Front") -> None:
        """Know the same leases as another client of the same agent: its writes name the tokens of both."""
        self._holder = other._holder  # noqa: SLF001  # both are fronts

    def heard_of(self, lease_id: str) -> None:
        """For whoever reads a log: it tells that a lease has ended. If it is kept alive here, the server is asked."""
        self._holder.keeper.heard_of(lease_id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.agent_id} at {', '.join(self._holder.urls)}>"
