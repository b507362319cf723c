"""Events: logged, read, and heard of as they happen."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from weakref import WeakSet

from openintent.client import calls, spelling
from openintent.client.awaited.base import Base
from openintent.client.holder import new_attempt
from openintent.client.loop.streams import AsyncStream
from openintent.client.streams import event_of
from openintent.client.values import Event
from openintent.wire import PAGE_MAX


class Events(Base):
    _streams: WeakSet[AsyncStream[Event]]

    async def log_event(
        self,
        intent_id: str | None,
        event_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        space: str | None = None,
        portfolio_id: str | None = None,
        agent_id: str | None = None,
    ) -> Event:
        """Write into the log of an intent, or with `None` in its place of a space, a portfolio or an agent."""
        where = spelling.log_of(intent_id, space, portfolio_id, agent_id)
        body = {"event_type": event_type, "payload": payload or {}}
        return await self._ask(calls.log_event(where, body, attempt=new_attempt()))

    async def get_events(
        self,
        intent_id: str | None = None,
        limit: int | None = None,
        after: int | None = None,
        types: str | Iterable[str] | None = None,
        order: str | None = None,
        *,
        space: str | None = None,
        portfolio_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Event]:
        """The newest first, or with `order="asc"` the oldest; `after` is a `seq`. Without a `limit` at most 100."""
        where, named = spelling.log_of(intent_id, space, portfolio_id, agent_id), spelling.types_of(types)
        return await self._ask(calls.get_events(where, limit=limit, after=after, types=named, order=order))

    def iter_events(
        self,
        intent_id: str | None = None,
        after: int = 0,
        types: str | Iterable[str] | None = None,
        *,
        space: str | None = None,
        portfolio_id: str | None = None,
        agent_id: str | None = None,
    ) -> AsyncIterator[Event]:
        """All that are kept, the oldest first, fetched as they are needed."""
        where, named = spelling.log_of(intent_id, space, portfolio_id, agent_id), spelling.types_of(types)
        return self._walk(lambda at: calls.get_event_page(where, after=int(at or after), types=named, size=PAGE_MAX))

    # Streams

    def subscribe_intent(
        self,
        intent_id: str,
        *,
        after: int | None = None,
        types: str | Iterable[str] | None = None,
        on_gap: str = "raise",
    ) -> AsyncStream[Event]:
        """What happens to an intent, as it happens: `async for event in client.subscribe_intent(intent.id):`.

        It connects when it is first asked, again by itself whenever it must, and goes on where it was: nothing is
        missed and nothing repeated. `after` is the `seq` of an event, 0 begins with the oldest that is kept; without it
        it begins with what happens from now on. If events after it are no longer kept, `EventsGone` tells the oldest
        that is; with `on_gap="skip"` it goes on there. `lease_queue`, the length of a queue, comes if `types` names it.
        """
        return self._subscribe(spelling.log_of(intent_id, None), after, types, on_gap)

    def subscribe_portfolio(
        self,
        portfolio_id: str,
        *,
        after: int | None = None,
        types: str | Iterable[str] | None = None,
        on_gap: str = "raise",
    ) -> AsyncStream[Event]:
        """What happens to a portfolio and to the intents in it. See `subscribe_intent`."""
        return self._subscribe(spelling.log_of(None, None, portfolio_id), after, types, on_gap)

    def subscribe_agent(
        self,
        agent_id: str | None = None,
        *,
        after: int | None = None,
        types: str | Iterable[str] | None = None,
        on_gap: str = "raise",
    ) -> AsyncStream[Event]:
        """What concerns an agent, this one if none is named. See `subscribe_intent`.

        It begins with the agent's open assignments: `agent_assigned` with `replayed` set.
        """
        where = spelling.log_of(None, None, agent_id=agent_id or self.agent_id)
        return self._subscribe(where, after, types, on_gap)

    def subscribe_space(
        self,
        space: str,
        *,
        after: int | None = None,
        types: str | Iterable[str] | None = None,
        on_gap: str = "raise",
    ) -> AsyncStream[Event]:
        """What happens in a plain space. See `subscribe_intent`."""
        return self._subscribe(spelling.log_of(None, space), after, types, on_gap)

    def _subscribe(
        self, space: str, after: int | None, types: str | Iterable[str] | None, on_gap: str
    ) -> AsyncStream[Event]:
        patience_s = self._holder.timeout_s
        following = spelling.following_of(space, after=after, types=types, on_gap=on_gap, patience_s=patience_s)
        stream = AsyncStream(following, self._transport, event_of)
        self._streams.add(stream)
        return stream
