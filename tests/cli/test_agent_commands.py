import pytest


@pytest.fixture
def agent(rival, space):
    rival.register_agent(f"agent-{space}", role_id=space, capabilities=["nlp", "search"], capacity=3)
    return f"agent-{space}"


def test_agents_are_listed_by_the_command_alone(cli, agent, space):
    assert agent in cli("agents").out
    header, row = cli("agents", "ls", "--role", space).out.splitlines()
    assert header.split() == ["AGENT", "STATUS", "ROLE", "LOAD", "LAST", "HEARTBEAT", "CAPABILITIES"]
    assert row.startswith(f"{agent}  active")
    assert row.endswith("nlp, search")
    assert [each["agent_id"] for each in cli("agents", "--role", space, "--json").json] == [agent]


def test_an_agent_is_shown(cli, agent):
    shown = cli("agents", "show", agent).out
    assert "load            0/3" in shown
    assert "dead            after 2 m 30 s of silence" in shown
    assert cli("agents", "show", agent, "--json").json["agent_id"] == agent


def test_an_agent_is_drained_and_taken_off(cli, agent, space):
    drained = cli("agents", "drain", agent)
    assert (drained.code, drained.out) == (0, f"{agent} is draining\n")
    assert cli("agents", "ls", "--status", "draining", "--role", space, "--json").json[0]["agent_id"] == agent
    removed = cli("agents", "rm", agent)
    assert (removed.code, removed.out) == (0, f"{agent} is deregistered\n")
    assert cli("agents", "ls", "--role", space).out == ""


def test_what_an_agent_is_to_work_on(cli, rival, space):
    agent = f"agent-{space}"
    assert "is assigned to nothing" in cli("agents", "assignments", agent).err
    rival.create_intent("Write it", id=space, assign=agent)
    header, row = cli("agents", "assignments", agent).out.splitlines()
    assert header.split() == ["INTENT", "STATUS", "ROLE", "ASSIGNED", "BY", "TITLE"]
    assert row.startswith(f"{space}  draft   worker")
    assert row.endswith("rival  Write it")
    (told,) = cli("agents", "assignments", agent, "--json").json["assignments"]
    assert told["intent_id"] == space


@pytest.mark.parametrize("verb", ["show", "drain", "rm"])
def test_an_unknown_agent_is_said(cli, verb):
    refused = cli("agents", verb, "nobody")
    assert (refused.code, refused.out) == (1, "")
    assert "Agent not found" in refused.err
