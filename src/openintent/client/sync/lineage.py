"""How intents are related: parts of a whole, and work that waits for other work."""

from collections.abc import Iterable
from typing import Unpack

from openintent.client import calls, flows, spelling
from openintent.client.holder import new_attempt
from openintent.client.spelling import IntentOptions
from openintent.client.sync.base import Base
from openintent.client.values import Intent


class Lineage(Base):
    def create_child_intent(
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
        return self._run(flow)

    def get_children(self, intent_id: str) -> list[Intent]:
        """Its parts."""
        return self._ask(calls.get_relatives(intent_id, "children"))

    def get_descendants(self, intent_id: str) -> list[Intent]:
        """Its parts and theirs, nearest first."""
        return self._ask(calls.get_relatives(intent_id, "descendants"))

    def get_ancestors(self, intent_id: str) -> list[Intent]:
        """What it is a part of, nearest first."""
        return self._ask(calls.get_relatives(intent_id, "ancestors"))

    def get_dependencies(self, intent_id: str) -> list[Intent]:
        """What it waits for."""
        return self._ask(calls.get_relatives(intent_id, "dependencies"))

    def get_dependents(self, intent_id: str) -> list[Intent]:
        """What waits for it."""
        return self._ask(calls.get_relatives(intent_id, "dependents"))

    def get_ready_intents(self, intent_id: str) -> list[Intent]:
        """Its open parts that could be worked on now."""
        return self._ask(calls.get_relatives(intent_id, "ready"))

    def get_blocked_intents(self, intent_id: str) -> list[Intent]:
        """Its open parts that wait for other work."""
        return self._ask(calls.get_relatives(intent_id, "blocked"))

    def add_dependency(self, intent_id: str, dependency_id: str, *, expected_version: int | None = None) -> Intent:
        """From now on the intent waits for another. A circle is refused."""
        return self._ask(calls.add_dependency(intent_id, dependency_id, version=expected_version))

    def remove_dependency(self, intent_id: str, dependency_id: str, *, expected_version: int | None = None) -> Intent:
        return self._ask(calls.remove_dependency(intent_id, dependency_id, version=expected_version))
