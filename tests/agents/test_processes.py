"""Agents that are killed or frozen: another instance goes on, and what comes too late is refused."""

import signal

import pytest
from fleetwords import own

from openintent.agents.record import LAPSED

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.alone]

TTL_S = 0.7


async def test_when_an_instance_is_killed_another_goes_on_from_the_checkpoint(stage, start, name):
    first = await start(name, lease_ttl=TTL_S)
    intent = await stage.assigned(initial_state={"goal": 40})
    await first.heard("counted", count=10)
    second = await start(name, lease_ttl=TTL_S)
    first.send(signal.SIGKILL)
    begun = await second.heard("begun")
    done = await stage.until_status(intent, "done")
    assert begun["attempt"] == 2
    assert begun["count"] >= 10
    assert own(done.state) == {"goal": 40, "count": 40, "by": second.agent_id}
    (failure,) = stage.record(done).failures
    assert (failure.error, failure.holder) == (LAPSED, first.agent_id)


async def test_an_async_handler_of_a_frozen_process_is_told_on_waking_and_its_result_does_not_land(stage, start, name):
    first = await start(name, lease_ttl=TTL_S)
    intent = await stage.assigned(initial_state={"goal": 60})
    await first.heard("counted", count=5)
    first.send(signal.SIGSTOP)
    second = await start(name, lease_ttl=TTL_S)
    await second.heard("begun", attempt=2)
    first.send(signal.SIGCONT)
    lost = await first.heard("lost")
    done = await stage.until_status(intent, "done")
    assert lost["reason"] in ("trust_ended", "expired")
    assert own(done.state)["by"] == second.agent_id


async def test_a_late_write_of_a_frozen_process_is_refused(stage, start, name, figures):
    """Its handler is plain: it goes on when the process does, and does not look."""
    first = await start(name, lease_ttl=TTL_S)
    intent = await stage.assigned(initial_state={"kind": "plain"})
    await first.heard("begun")
    token = (await stage.holder(intent)).token
    first.send(signal.SIGSTOP)
    await start(name, lease_ttl=TTL_S)
    done = await stage.until_status(intent, "done")
    first.send(signal.SIGCONT)
    refused, _ = await first.heard_all("refused", "lost")
    assert refused["token"] == token
    assert await stage.boss.get_intent(intent.id) == done
    assert own(done.state).keys() == {"kind", "by"}
    figures.add("a handler whose process was frozen beyond its ttl", told_of_the_loss=1, late_writes_accepted=0)
