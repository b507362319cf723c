"""What a class may not call its own if it is to be an agent."""

import pytest

from openintent.agents import Agent, AgentBase, Coordinator, on_assignment


class Hiding:
    @on_assignment
    async def work(self, intent):
        return {"attempt": self.work.attempt}


class Deeper(Hiding):
    pass


class Typed(AgentBase):
    def _complete(self):
        return "mine"


@pytest.mark.parametrize(
    ("kind", "named"), [(Hiding, "Hiding.work"), (Deeper, "Hiding.work"), (Typed, "Typed._complete")]
)
@pytest.mark.parametrize("make", [Agent("slow"), Coordinator("slow", intent_id="x")])
def test_a_name_that_every_agent_has_is_refused_at_once(make, kind, named):
    with pytest.raises(TypeError, match=rf"{named} hides"):
        make(kind)
