"""Intents: made, read, changed, taken away."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Unpack

from openintent.client import calls, flows, spelling
from openintent.client.awaited.base import Base
from openintent.client.holder import new_attempt
from openintent.client.lease import Lease
from openintent.client.spelling import IntentOptions
from openintent.client.values import Discovery, Intent
from openintent.wire import PAGE_MAX


class Intents(Base):
    async def discover(self) -> Discovery:
        """What the server is, and what it offers."""
        return await self._ask(calls.discover())

    async def create_intent(
        self,
        title: str,
        description: str = "",
        *,
        assign: str | Iterable[str] | None = None,
        **options: Unpack[IntentOptions],
    ) -> Intent:
        """Make an intent, and assign the agents that are named."""
        body = spelling.intent_of(title, description, options)
        agents = spelling.agents_of(assign)
        patience_s = self._holder.timeout_s
        return await self._run(flows.create_intent(body, agents, attempt=new_attempt(), patience_s=patience_s))

    async def get_intent(self, intent_id: str) -> Intent:
        return await self._ask(calls.get_intent(intent_id))

    async def list_intents(
        self, status: str | None = None, *, limit: int | None = None, offset: int | None = None
    ) -> list[Intent]:
        """All of them, or with a `limit` so many of them."""
        if limit is None and offset is None:
            return await self._all(lambda at: calls.list_intents(status=status, limit=PAGE_MAX, offset=at))
        return (await self._ask(calls.list_intents(status=status, limit=limit, offset=offset))).items

    def iter_intents(self, status: str | None = None) -> AsyncIterator[Intent]:
        """All of them, one after the other, fetched as they are needed."""
        return self._walk(lambda at: calls.list_intents(status=status, limit=PAGE_MAX, offset=at))

    async def delete_intent(self, intent_id: str) -> None:
        """Take it away. Refused while somebody holds a lease on it, or something depends on it."""
        await self._remove(calls.delete_intent(intent_id))

    async def patch_state(
        self,
        intent_id: str,
        changes: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        expected_version: int | None = None,
        lease: Lease | int | None = None,
    ) -> Intent:
        """Set keys (`"a/b"` is a path), or apply a list of patches: all of them or none.

        With `expected_version` only if that is the present one, else `ConflictError`. The write names the token of
        `lease`, or of the innermost `async with client.lease(...)` or `client.coordinate(...)` on this intent, and is
        refused if that is not live.
        """
        token, patches = self._holder.token_for(intent_id, lease), calls.patches_of(changes)
        attempt = new_attempt()
        return await self._ask(
            calls.patch_state(intent_id, patches, version=expected_version, token=token, attempt=attempt)
        )

    async def update_state(
        self,
        intent_id: str,
        version: int,
        changes: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        lease: Lease | int | None = None,
    ) -> Intent:
        return await self.patch_state(intent_id, changes, expected_version=version, lease=lease)

    async def set_status(
        self,
        intent_id: str,
        version: int | None,
        status: str,
        reason: str | None = None,
        *,
        lease: Lease | int | None = None,
    ) -> Intent:
        """With a `version` only if that is the present one, else `ConflictError`. It names a token as a patch does."""
        token, attempt = self._holder.token_for(intent_id, lease), new_attempt()
        return await self._ask(
            calls.set_status(intent_id, status, version=version, reason=reason, token=token, attempt=attempt)
        )
