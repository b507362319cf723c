"""Server-sent events over HTTP: what readers are told, where they begin, and what ends a stream."""

import http.client
import socket
import subprocess
import sys
from typing import Self
from urllib.parse import urlsplit

import pytest
from http_words import Api, refused, running_server
from stream_words import Message, messages

PATIENCE_S = 10.0


class Subscription:
    """One open stream, read block by block."""

    def __init__(self, url: str, path: str, *, base: str = "/api/v1", **headers: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE_S)
        self._connection.request("GET", base + path, headers=headers)
        self.response = self._connection.getresponse()
        self.greeting = self.block() if self.response.status == 200 else ""

    def block(self) -> str:
        """The lines up to the next empty one; nothing at the end of the stream."""
        lines = []
        while (line := self.response.readline().decode()) not in ("\n", ""):
            lines.append(line)
        return "".join(lines)

    def next(self) -> Message:
        """The next message that says something."""
        while not (found := messages(self.block())):
            pass
        return found[0]

    def take(self, count: int) -> list[Message]:
        return [self.next() for _ in range(count)]

    def close(self) -> None:
        self.response.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture(scope="module")
def api(server_url):
    """These tests look at streams; what else they send may take either lane."""
    api = Api(server_url, "hot")
    with api.http:
        yield api


@pytest.fixture
def subscribe(server_url):
    opened = []

    def open_one(path, **options):
        opened.append(Subscription(server_url, path, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def names(told):
    return [each.event for each in told]


# What is told


def test_the_lower_case_family_tells_the_log_as_it_is_read(api, subscribe, intent):
    stream = subscribe(f"/subscribe{intent}")
    lease = api.lease(intent, scope="a")
    api.delete(f"/leases/{lease['id']}")
    revoked = api.lease(intent, scope="b")
    api.post(f"/leases/{revoked['id']}/revoke", {"reason": "why not"})
    api.lease(intent, scope="c", ttl_seconds=0.1)
    api.post(f"{intent}/events", {"event_type": "Note", "payload": {"text": "two\nlines"}})
    told = stream.take(6)
    told.append(stream.next())
    ends = {"lease_acquired", "lease_released", "lease_revoked", "lease_expired", "note"}
    assert set(names(told)) == ends
    logged = {event["seq"]: event for event in api.events(intent)}
    assert [each.id for each in told] == sorted(logged)[1:]
    assert [each.data for each in told] == [logged[each.id] for each in told]


def test_the_upper_case_family_tells_agents_what_they_listen_for_and_nothing_else(api, subscribe, intent, name):
    intent_id = intent.rpartition("/")[2]
    stream = subscribe(f"{intent}/subscribe")
    lease = api.lease(intent, scope="a")
    api.post(f"{intent}/agents", {"agent_id": name, "role": "reviewer"})
    api.patch(f"{intent}/state", {"state": {"n": 1}}, headers={"If-Match": "*"})
    api.delete(f"/leases/{lease['id']}")
    api.post(f"{intent}/events", {"event_type": "note", "payload": {}})
    api.post(f"{intent}/status", {"status": "active"}, headers={"If-Match": "*"})
    api.post(f"{intent}/status", {"status": "completed"}, headers={"If-Match": "*"})
    api.post(f"{intent}/status", {"status": "draft"}, headers={"If-Match": "*"})
    told = stream.take(6)
    assert [(each.event, each.data) for each in told] == [
        ("AGENT_ASSIGNED", {"intent_id": intent_id, "agent_id": name, "role": "reviewer"}),
        ("STATE_CHANGED", {"intent_id": intent_id, "old_state": {}, "new_state": {"n": 1}}),
        ("LEASE_RELEASED", {"intent_id": intent_id, "space": f"intent:{intent_id}", "scope": "a"}),
        ("STATUS_CHANGED", {"intent_id": intent_id, "new_status": "active"}),
        ("STATUS_CHANGED", {"intent_id": intent_id, "new_status": "completed"}),
        ("STATUS_CHANGED", {"intent_id": intent_id, "new_status": "draft"}),
    ]
    numbers = [each.id for each in told]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("end", ["revoke", "lapse", "release"])
def test_every_end_of_a_lease_is_a_release_to_agents(end, api, subscribe, intent):
    stream = subscribe(f"{intent}/subscribe")
    lease = api.lease(intent, scope="a", ttl_seconds=0.1 if end == "lapse" else 60)
    if end == "revoke":
        api.post(f"/leases/{lease['id']}/revoke", {"reason": "why not"})
    if end == "release":
        api.delete(f"/leases/{lease['id']}")
    assert stream.next().event == "LEASE_RELEASED"


def test_a_queue_that_grows_or_shrinks_is_told_without_a_number(api, subscribe, space, name):
    stream = subscribe(f"/subscribe{space}")
    api.lease(space, scope="a")
    assert stream.next().event == "lease_acquired"
    reply = api.post(f"{space}/leases", {"scope": "a", "wait_seconds": 0.4}, agent="bob")
    assert reply.status_code == 409
    length = {"space": f"space:{name}", "scope": "a", "queue_length": 1}
    assert stream.take(2) == [(None, "lease_queue", length), (None, "lease_queue", {**length, "queue_length": 0})]


def test_agents_that_listen_are_not_told_of_queues(api, subscribe, intent):
    stream = subscribe(f"{intent}/subscribe")
    lease = api.lease(intent, scope="a")
    assert api.post(f"{intent}/leases", {"scope": "a", "wait_seconds": 0.4}, agent="bob").status_code == 409
    api.delete(f"/leases/{lease['id']}")
    assert stream.next().event == "LEASE_RELEASED"


def test_a_portfolio_tells_of_its_intents_while_they_are_in_it(api, subscribe, intent, name):
    intent_id = intent.rpartition("/")[2]
    made = api.post("/portfolios", {"name": name}).json()
    portfolio = f"/portfolios/{made['id']}"
    lower, upper = subscribe(f"/subscribe{portfolio}"), subscribe(f"{portfolio}/subscribe")
    note = {"event_type": "note", "payload": {}}
    api.post(f"{intent}/events", note)
    api.post(f"{portfolio}/intents", {"intent_id": intent_id})
    api.post(f"{intent}/events", note)
    api.post(f"{intent}/status", {"status": "active"}, headers={"If-Match": "*"})
    api.delete(f"{portfolio}/intents/{intent_id}")
    api.post(f"{intent}/events", note)
    api.patch(f"{portfolio}/status", {"status": "completed"})
    wanted = ["added_to_portfolio", "note", "status_changed", "removed_from_portfolio", "status_changed"]
    assert names(lower.take(5)) == wanted
    assert [each.data for each in upper.take(2)] == [
        {"intent_id": intent_id, "new_status": "active"},
        {"intent_id": None, "portfolio_id": made["id"], "new_status": "completed"},
    ]


def test_an_agent_that_connects_is_sent_its_open_assignments_first(api, subscribe, intent, name):
    intent_id = intent.rpartition("/")[2]
    api.post(f"{intent}/agents", {"agent_id": name})
    done = api.intent()
    api.post(f"/intents/{done}/agents", {"agent_id": name})
    api.post(f"/intents/{done}/status", {"status": "completed"}, headers={"If-Match": "*"})
    upper, lower = subscribe(f"/agents/{name}/subscribe"), subscribe(f"/subscribe/agents/{name}")
    first = upper.next()
    replayed = {"intent_id": intent_id, "agent_id": name, "role": "worker", "replayed": True}
    assert (first.event, first.data) == ("AGENT_ASSIGNED", replayed)
    assert f"id: {first.id}\n" in upper.greeting, "it moves nobody's cursor"
    told = lower.next()
    assert (told.event, told.data["replayed"], told.data["intent_id"]) == ("agent_assigned", True, intent_id)
    api.post(f"/intents/{done}/events", {"event_type": "note", "payload": {}})
    assert lower.next().event == "note", "an assignment to what is done is one too"
    api.delete(f"{intent}/agents/{name}")
    assert lower.next().event == "agent_unassigned"


def test_every_instance_that_reads_its_agents_stream_is_told_of_new_work_also_when_one_registers_anew(
    api, subscribe, intent, name
):
    first = subscribe(f"/subscribe/agents/{name}", **{"X-Agent-ID": f"{name}~1"})
    second = subscribe(f"/subscribe/agents/{name}", **{"X-Agent-ID": f"{name}~2"})
    upper = subscribe(f"/agents/{name}/subscribe", **{"X-Agent-ID": f"{name}~3"})
    payload = {"intent_id": intent.rpartition("/")[2], "agent_id": name, "role": "worker"}
    api.post(f"{intent}/agents", {"agent_id": name})
    told = [each.next() for each in (first, second)]
    assert [each.event for each in told] == ["agent_assigned"] * 2
    assert [each.data["payload"] for each in told] == [payload] * 2
    assert upper.next().data == payload
    second.close()
    for version in (1, 2):
        assert api.post("/agents/register", {"agent_id": name}).json()["version"] == version
        assert first.next().event == "agent.registered", "nothing is assigned anew"
    back = subscribe(f"/subscribe/agents/{name}", **{"X-Agent-ID": f"{name}~2"})
    assert (back.next().data["replayed"], first.response.isclosed()) == (True, False)
    another = api.intent()
    api.post(f"/intents/{another}/agents", {"agent_id": name})
    assert [each.next().data["intent_id"] for each in (first, back)] == [another] * 2
    listed = api.get(f"/agents/{name}/assignments", agent=f"{name}~2").json()["assignments"]
    assert [each["intent_id"] for each in listed] == [payload["intent_id"], another]


def test_openintents_agents_are_told_of_their_own_assignments_only_and_once(api, subscribe, intent, name):
    other, third = (f"/intents/{api.intent()}" for _ in range(2))
    for each in (intent, other):
        api.post(f"{each}/agents", {"agent_id": name})
    stream = subscribe(f"/agents/{name}/subscribe")
    open_ones = stream.take(2)
    assert open_ones[0].id is None, "one who is cut off here is told both again"
    api.post(f"{intent}/agents", {"agent_id": "somebody-else"})
    api.post(f"{intent}/events", {"event_type": "agent_assigned", "payload": {"agent_id": name}})
    api.post(f"{intent}/status", {"status": "active"}, headers={"If-Match": "*"})
    assert stream.next().event == "STATUS_CHANGED"
    api.post(f"{third}/agents", {"agent_id": name})
    again = subscribe(f"/agents/{name}/subscribe", **{"Last-Event-ID": str(open_ones[1].id)})
    told = again.take(2)
    assert names(told) == ["STATUS_CHANGED", "AGENT_ASSIGNED"]
    assert f"/intents/{told[1].data['intent_id']}" == third


def test_whoever_loses_a_lease_finds_it_in_its_own_stream(api, subscribe, space, name):
    stream = subscribe(f"/subscribe/agents/{name}")
    lease = api.lease(space, scope="a", agent=name)
    api.post(f"/leases/{lease['id']}/revoke", {"reason": "why not"})
    assert stream.next().event == "lease_revoked"


# Where a reader begins


def test_a_stream_says_at_once_that_it_is_one(subscribe, space):
    stream = subscribe(f"/subscribe{space}", base="/v1")
    headers = stream.response.headers
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert int(headers["x-term"]) >= 1
    assert stream.greeting.startswith("retry: 1000\nid: ")


@pytest.mark.parametrize("family", ["/subscribe{}", "{}/subscribe"])
def test_a_reader_resumes_behind_what_it_names(family, api, subscribe, intent):
    for status in ("active", "blocked", "draft"):
        api.post(f"{intent}/status", {"status": status}, headers={"If-Match": "*"})
    path = family.format(intent)
    created, first, second, third = [event["seq"] for event in api.events(intent)]
    assert subscribe(path, **{"Last-Event-ID": str(first)}).next().id == second
    assert subscribe(f"{path}?after={second}").next().id == third
    for after in (0, created):
        assert subscribe(f"{path}?after={after}", **{"Last-Event-ID": str(second)}).next().id == third
    assert subscribe(f"{path}?after=0").next().id in (created, first)
    assert subscribe(f"{path}?after={created}", **{"Last-Event-ID": ""}).next().id == first


def test_without_a_cursor_a_reader_begins_now(api, subscribe, space):
    api.post(f"{space}/events", {"event_type": "before", "payload": {}})
    stream = subscribe(f"/subscribe{space}")
    api.post(f"{space}/events", {"event_type": "after", "payload": {}})
    assert stream.next().event == "after"


@pytest.mark.parametrize("kind", ["intents", "portfolios"])
def test_there_is_no_stream_of_what_does_not_exist(kind, api):
    for path in (f"/subscribe/{kind}/none", f"/{kind}/none/subscribe"):
        refused(api.get(path), 404, "not_found")


@pytest.mark.parametrize("path", ["/subscribe/agents/nobody", "/subscribe/spaces/nowhere", "/agents/nobody/subscribe"])
def test_agents_and_plain_spaces_need_not_exist(path, subscribe):
    assert subscribe(path).response.status == 200


@pytest.mark.parametrize("cursor", ["x", "-1", "1.0", "9" * 19])
def test_a_cursor_is_a_number(cursor, api, space):
    problem = refused(api.get(f"/subscribe{space}", headers={"Last-Event-ID": cursor}), 422, "invalid")
    assert problem["detail"][0]["loc"] == ["header", "Last-Event-ID"]
    refused(api.get(f"/subscribe{space}?after={cursor}"), 422, "invalid")


def test_a_cursor_that_the_log_has_not_reached_is_told_so(api, space):
    problem = refused(api.get(f"/subscribe{space}", headers={"Last-Event-ID": "999999999"}), 410, "events_gone")
    assert problem["oldest"] == 1
    assert "backup" in problem["message"]


def test_one_of_openintents_agents_whose_cursor_the_log_does_not_have_begins_anew(api, subscribe, intent, name):
    api.post(f"{intent}/agents", {"agent_id": name})
    stream = subscribe(f"/agents/{name}/subscribe", **{"Last-Event-ID": "999999999"})
    assert stream.next().data["replayed"] is True
    assert "retry" not in stream.greeting, "how long they wait, and how often, is their own choice"
    api.post(f"{intent}/status", {"status": "active"}, headers={"If-Match": "*"})
    assert stream.next().event == "STATUS_CHANGED"


def test_asking_for_the_head_of_a_stream_gets_that_and_no_more(server_url, space):
    address = urlsplit(server_url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as plain:
        plain.sendall(f"HEAD /api/v1/subscribe{space} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        with plain.makefile("rb") as answer:
            head = answer.read()  # up to where the server closes
    assert b"content-type: text/event-stream\r\n" in head
    assert head.endswith(b"\r\n\r\n")


def test_a_cursor_that_the_log_has_forgotten_is_told_the_oldest(tmp_path):
    config = tmp_path / "c.toml"
    config.write_text("[limits]\nevents_kept_max = 20\nended_kept_max = 1\n")
    with running_server("--config", str(config)) as url:
        api = Api(url, "hot")
        leases = [api.lease("/spaces/s", scope="a")]
        for _ in range(20):
            api.delete(f"/leases/{leases[-1]['id']}")
            leases.append(api.lease("/spaces/s", scope="a"))
        while len(kept := api.events("/spaces/s", after=1)) > 20:
            pass  # the log is looked after once a second
        oldest = kept[0]["seq"]
        problem = refused(api.get("/subscribe/spaces/s", headers={"Last-Event-ID": "1"}), 410, "events_gone")
        assert problem["oldest"] == oldest
        refused(api.get(f"/subscribe/spaces/s?after={oldest - 2}"), 410, "events_gone")
        refused(api.get("/subscribe/spaces/s", headers={"Last-Event-ID": "0"}), 410, "events_gone")
        for after in (0, oldest - 1):
            with Subscription(url, f"/subscribe/spaces/s?after={after}") as stream:
                assert [each.id for each in stream.take(len(kept))] == [event["seq"] for event in kept]
        refused(api.get(f"/leases/{leases[0]['id']}"), 404, "not_found")
        assert api.get(f"/leases/{leases[-2]['id']}").json()["status"] == "released"
        api.http.close()


# What ends a stream


def test_there_is_a_bound_on_streams(tmp_path):
    config = tmp_path / "c.toml"
    config.write_text("streams_max = 1\n")
    with running_server("--config", str(config)) as url:
        api = Api(url, "hot")
        with Subscription(url, "/subscribe/spaces/s"):
            reply = api.get("/subscribe/spaces/s")
            refused(reply, 503, "overloaded")
            assert reply.headers["retry-after"] == "1"
        while (again := Subscription(url, "/subscribe/spaces/s")).response.status == 503:
            again.close()  # until the server has seen that the first is gone
        assert again.response.status == 200
        again.close()
        api.http.close()


def test_when_the_server_stops_readers_are_told_their_cursor():
    with running_server() as url:
        api = Api(url, "hot")
        stream = Subscription(url, "/subscribe/spaces/s")
        upper = Subscription(url, "/agents/ann/subscribe")
        seq = api.post("/spaces/s/events", {"event_type": "note", "payload": {}}).json()["seq"]
        assert stream.next().id == seq
        api.http.close()
    assert stream.next() == (seq, "closed", {"reason": "stopping", "cursor": seq})
    assert upper.block().startswith(": closed, stopping\nid: "), "no name that an agent does not know"
    assert stream.block() == upper.block() == ""
    stream.close()
    upper.close()


def openintent(*words: object) -> str:
    command = [sys.executable, "-m", "openintent.cli", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_stream_whose_key_is_revoked_ends_and_the_others_go_on(tmp_path):
    file = tmp_path / "keys"
    keys = [openintent("keys", "add", name, "--quiet", "--file", file).strip() for name in ("one", "two")]
    with running_server("--keys", str(file)) as url:
        streams = [Subscription(url, "/subscribe/spaces/s", **{"X-API-Key": key}) for key in keys]
        with Subscription(url, "/subscribe/spaces/s") as stranger:
            assert stranger.response.status == 401
        openintent("keys", "revoke", "one", "--file", file)
        assert streams[0].next().data["reason"] == "key_revoked"
        api = Api(url, "hot")
        api.post("/spaces/s/events", {"event_type": "note", "payload": {}}, headers={"X-API-Key": keys[1]})
        assert streams[1].next().event == "note"
        for stream in streams:
            stream.close()
        api.http.close()
