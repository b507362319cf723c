"""How intents are related: parts of a whole, and work that waits for other work."""

from collections.abc import Iterable
from typing import Unpack

from openintent.client import calls, flows, spelling
from openintent.client.awaited.base import Base
from openintent.client.holder import new_attempt
from openintent.client.spelling import IntentOptions
from openintent.client.values import Intent


class Lineage(Base):
    async def create_child_intent(
        self,
        intent_id: str,
        title: str,
        description: str = "",
        *,
        assign: str | Iterable[str] | None = None,
        **options: Unpack[IntentOptions],
    ) -> Intent:
        """Make an intent that is a part of another."""
        body = spelling.intent_of(title, description, options)
        agents = spelling.agents_of(assign)
        flow = flows.create_intent(
            body, agents, attempt=new_attempt(), patience_s=self._holder.timeout_s, parent_id=intent_id
        )
        return await self._run(flow)

    async def get_children(self, intent_id: str) -> list[Intent]:
        """Its parts."""
        return await self._ask(calls.get_relatives(intent_id, "children"))

    async def get_descendants(self, intent_id: str) -> list[Intent]:
        """Its parts and theirs, nearest first."""
        return await self._ask(calls.get_relatives(intent_id, "descendants"))

    async def get_ancestors(self, intent_id: str) -> list[Intent]:
        """What it is a part of, nearest first."""
        return await self._ask(calls.get_relatives(intent_id, "ancestors"))

    async def get_dependencies(self, intent_id: str) -> list[Intent]:
        """What it waits for."""
        return await self._ask(calls.get_relatives(intent_id, "dependencies"))

    async def get_dependents(self, intent_id: str) -> list[Intent]:
        """What waits for it."""
        return await self._ask(calls.get_relatives(intent_id, "dependents"))

    async def get_ready_intents(self, intent_id: str) -> list[Intent]:
        """Its open parts that could be worked on now."""
        return await self._ask(calls.get_relatives(intent_id, "ready"))

    async def get_blocked_intents(self, intent_id: str) -> list[Intent]:
        """Its open parts that wait for other work."""
        return await self._ask(calls.get_relatives(intent_id, "blocked"))

    async def add_dependency(
        self, intent_id: str, dependency_id: str, *, expected_version: int | None = None
    ) -> Intent:
        """From now on the intent waits for another. A circle is refused."""
        return await self._ask(calls.add_dependency(intent_id, dependency_id, version=expected_version))

    async def remove_dependency(
        self, intent_id: str, dependency_id: str, *, expected_version: int | None = None
    ) -> Intent:
        return await self._ask(calls.remove_dependency(intent_id, dependency_id, version=expected_version))
