"""An agent has room for so many assignments, and none of it is lost."""

import pytest
from fleetwords import own

from openintent.agents import AgentBase, on_assignment, running
from openintent.agents.agenda import Task
from openintent.clock import boot_s

pytestmark = pytest.mark.anyio


async def test_an_assignment_that_is_taken_back_before_its_work_began_takes_no_room(stage, agent):
    @agent(capacity=1)
    class Worker(AgentBase):
        @on_assignment
        async def fetch(self):
            return {"worked": True}

    async with running(Worker()) as (worker,):
        runner, withdrawn = worker.__dict__["_runner"], Task(stage.name, "withdrawn")
        # Nothing runs in between: it is what happens when both are heard in one turn of the event loop.
        runner._agenda.add(withdrawn, at=boot_s())
        runner._begin_what_fits()
        runner._leave_it(withdrawn)
        intent = await stage.until_status(await stage.assigned(), "done")
    assert own(intent.state) == {"worked": True}
