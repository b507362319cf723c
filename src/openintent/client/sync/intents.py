"""Intents: made, read, changed, taken away."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from openintent.client import calls, flows, spelling
from openintent.client.holder import new_attempt
from openintent.client.lease import Lease
from openintent.client.spelling import IntentOptions
from openintent.client.sync.base import Base
from openintent.client.values import Discovery, Intent
from openintent.wire import PAGE_MAX


class Intents(Base):
    def discover(self) -> Discovery:
        """What the server is, and what it offers."""
        return self._ask(calls.discover())

    def create_intent(
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
        return self._run(flows.create_intent(body, agents, attempt=new_attempt(), patience_s=patience_s))

    def get_intent(self, intent_id: str) -> Intent:
        return self._ask(calls.get_intent(intent_id))

    def list_intents(
        self, status: str | None = None, *, limit: int | None = None, offset: int | None = None
    ) -> list[Intent]:
        """All of them, or with a `limit` so many of them."""
        if limit is None and offset is None:
            return self._all(lambda at: calls.list_intents(status=status, limit=PAGE_MAX, offset=at))
        return self._ask(calls.list_intents(status=status, limit=limit, offset=offset)).items

    def iter_intents(self, status: str | None = None) -> Iterator[Intent]:
        """All of them, one after the other, fetched as they are needed."""
        return self._walk(lambda at: calls.list_intents(status=status, limit=PAGE_MAX, offset=at))

    def delete_intent(self, intent_id: str) -> None:
        """Take it away. Refused while somebody holds a lease on it, or something depends on it."""
        self._remove(calls.delete_intent(intent_id))

    def patch_state(
        self,
        intent_id: str,
        changes: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        expected_version: int | None = None,
        lease: Lease | int | None = None,
    ) -> Intent:
        """Set keys (`"a/b"` is a path), or apply a list of patches: all of them or none.

        With `expected_version` only if that is the present one, else `ConflictError`. The write names the token of
        `lease`, or of the innermost `with client.lease(...)` or `client.coordinate(...)` on this intent, and is
        refused if that is not live.
        """
        token, patches = self._holder.token_for(intent_id, lease), calls.patches_of(changes)
        attempt = new_attempt()
        return self._ask(calls.patch_state(intent_id, patches, version=expected_version, token=token, attempt=attempt))

    def update_state(
        self,
        intent_id: str,
        version: int,
        changes: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        lease: Lease | int | None = None,
    ) -> Intent:
        return self.patch_state(intent_id, changes, expected_version=version, lease=lease)

    def set_status(
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
        return self._ask(
            calls.set_status(intent_id, status, version=version, reason=reason, token=token, attempt=attempt)
        )
