"""Bugs in the agents: when a handler runs, and what its result is written under."""

from typing import Final

from mutant import Edit, Mutant, tests

FLEET: Final = tests("e2e/test_fleet.py::test_each_assignment_has_its_effect_once_whatever_becomes_of_its_agents")
IN_TIME: Final = tests("e2e/test_handlers_in_time.py")

MUTANTS: Final = (
    Mutant(
        "the instances of a role do not exclude each other",
        (
            Edit(
                "agents/attending.py",
                '        return self._scope or f"{SCOPE}{name}"',
                '        return f"{SCOPE}{self._agent.agent_id}"',
            ),
        ),
        (FLEET,),
    ),
    Mutant(
        "the result of a handler names no token",
        (
            Edit(
                "agents/attending.py",
                "        self._latest = await self._client.patch_state(self.intent.id, patches, lease=self.lease)",
                "        writing = self._client.patch_state(self.intent.id, patches)\n"
                '        nothing = __import__("contextvars").Context()\n'
                "        self._latest = await asyncio.create_task(writing, context=nothing)",
            ),
        ),
        (FLEET, IN_TIME),
    ),
    Mutant(
        "a handler goes on when its lease is lost",
        (
            Edit(
                "agents/calling.py",
                "        return await handler(*told)",
                "        return await asyncio.shield(asyncio.ensure_future(handler(*told)))",
            ),
        ),
        (FLEET, IN_TIME),
    ),
    Mutant(
        "a lease is given back while a plain handler still works under it",
        (Edit("agents/calling.py", "    elif hold.reason == TRUST_ENDED:", "    elif not hold.reason:"),),
        (IN_TIME, IN_TIME, IN_TIME),  # how soon the lease is given back, and another comes, is a matter of chance
    ),
)
