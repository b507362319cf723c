"""Every call that the two clients of OpenIntent's own package offer: it succeeds, or it is plainly not offered."""

import subprocess
from pathlib import Path

import pytest
from peerinstall import public_python
from serverprocess import ServerProcess

pytestmark = pytest.mark.timeout(400)  # the first time, the package is installed

PROGRAM = Path(__file__).with_name("public_calls.py")
OK = "ok"
NOT_OFFERED = "NotFoundError 404"

OFFERED = {
    *("create_intent", "get_intent", "list_intents", "update_state", "set_status", "discover", "get_server_config"),
    *("create_child_intent", "get_children", "get_descendants", "get_ancestors"),
    *("add_dependency", "remove_dependency", "get_dependencies", "get_dependents"),
    *("get_ready_intents", "get_blocked_intents"),
    *("acquire_lease", "renew_lease", "release_lease", "get_leases"),
    *("create_coordinator_lease", "get_coordinator_lease", "list_coordinator_leases", "coordinator_heartbeat"),
    *("register_agent", "get_agent_record", "list_agents", "agent_heartbeat", "update_agent_status"),
    *("assign_agent", "unassign_agent"),
    *("set_governance_policy", "get_governance_policy", "remove_governance_policy"),
    *("request_arbitration", "record_decision", "get_decisions"),
    *("create_portfolio", "get_portfolio", "list_portfolios", "update_portfolio_status"),
    *("add_intent_to_portfolio", "remove_intent_from_portfolio", "get_portfolio_intents", "get_intent_portfolios"),
    *("log_event", "get_events", "log_tool_call_started", "log_tool_call_completed", "log_tool_call_failed"),
    *("log_llm_request_started", "log_llm_request_completed", "log_llm_request_failed"),
    *("start_stream", "log_stream_chunk", "complete_stream", "cancel_stream"),
}
CONTENT_WITH_A_404 = {"close_channel", "get_retry_policy"}

REFUSED = {
    "acquire_for_no_time": "OpenIntentError 422",
    "acquire_in_nothing": "NotFoundError 404",
    "renew_what_was_released": "LeaseConflictError 409",
    "renew_anothers": "NotFoundError 404",
    "coordinate_nothing": "OpenIntentError 422",
    "coordinate_in_anothers_place": "NotFoundError 404",
    "look_for_no_coordinator": "NotFoundError 404",
    "look_for_no_agent": "NotFoundError 404",
    "drain_no_agent": "NotFoundError 404",
    "list_agents_of_no_kind": "OpenIntentError 422",
    "govern_an_old_version": "ConflictError 409",
    "govern_by_no_rule": "OpenIntentError 422",
    "decide_about_nothing": "NotFoundError 404",
    "read_the_events_of_nothing": "NotFoundError 404",
    "log_an_event_of_nothing": "NotFoundError 404",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """How each call ended, by client."""
    folder = tmp_path_factory.mktemp("public_calls")
    server = ServerProcess(folder / "leases.db")
    server.start()
    try:
        command = [public_python(), "-I", PROGRAM, f"http://127.0.0.1:{server.port}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
    finally:
        server.kill()
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    found: dict[str, dict[str, str]] = {}
    for line in ended.stdout.splitlines():
        client, call, outcome = line.split(" ", 2)
        found.setdefault(client, {})[call] = outcome
    return found


@pytest.mark.parametrize("client", ["OpenIntentClient", "AsyncOpenIntentClient"])
def test_what_is_offered_succeeds_and_all_else_is_not_found(told, client):
    fine = OFFERED | CONTENT_WITH_A_404
    assert told[client] == {call: OK if call in fine else NOT_OFFERED for call in told[client]}


def test_all_that_is_offered_was_called(told):
    assert set(told["OpenIntentClient"]) | set(told["AsyncOpenIntentClient"]) >= OFFERED | CONTENT_WITH_A_404


def test_refusals_come_as_the_exceptions_that_its_users_know(told):
    assert told["refused"] == REFUSED
