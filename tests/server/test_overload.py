"""What is refused when the server is behind, in which order, and what is served all the same."""

import asyncio
import json
import logging
import resource

import pytest
from lane_words import House, Wire, request, settle

from openintent.engines.memory import MemoryEngine
from openintent.errors import Unavailable
from openintent.grantor.grantor import Grantor
from openintent.model import Limits
from openintent.server.auth import Gate
from openintent.server.exchange import Exchange
from openintent.server.openfiles import FILES_BESIDES, make_room
from openintent.server.overload import BUSY_MIN, LOOK_MS, Overload, Patience
from openintent.server.routes import ROUTER, ROUTES
from openintent.server.routing import Match, Route, Router
from openintent.server.service import Service
from openintent.server.settings import Settings
from openintent.server.urgency import NEW, VITAL, Urgency, urgency

# The policy


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/api/v1/intents/i/leases", Urgency.NEW),
        ("POST", "/v1/spaces/s/leases", Urgency.NEW),
        ("POST", "/api/v1/coordinators", Urgency.NEW),
        ("POST", "/api/v1/intents", Urgency.NEW),
        ("PATCH", "/api/v1/intents/i/leases/l", Urgency.VITAL),
        ("PATCH", "/api/v1/leases/l", Urgency.VITAL),
        ("DELETE", "/api/v1/leases/l", Urgency.VITAL),
        ("DELETE", "/api/v1/spaces/s/leases", Urgency.VITAL),
        ("POST", "/api/v1/agents/a/heartbeat", Urgency.VITAL),
        ("POST", "/api/v1/coordinators/c/heartbeat", Urgency.VITAL),
        ("POST", "/api/v1/leases/l/revoke", Urgency.VITAL),
        ("GET", "/livez", Urgency.VITAL),
        ("GET", "/readyz", Urgency.VITAL),
        ("GET", "/metrics", Urgency.VITAL),
        ("GET", "/api/v1/leases/l", Urgency.USUAL),
        ("GET", "/api/v1/leases", Urgency.USUAL),
        ("PATCH", "/api/v1/intents/i/state", Urgency.USUAL),
        ("DELETE", "/api/v1/intents/i", Urgency.USUAL),
    ],
)
def test_what_begins_something_goes_first_and_what_keeps_something_stays(method, path, expected):
    found = ROUTER.find(method, path)
    assert isinstance(found, Match)
    assert found.route.urgency is expected


def test_every_rule_is_about_a_route_that_exists():
    for rules, kind in ((NEW, Urgency.NEW), (VITAL, Urgency.VITAL)):
        for method, end in rules:
            fitting = [each for each in ROUTES if each.method == method and each.pattern.endswith(end)]
            assert kind in {urgency(each.method, each.pattern) for each in fitting}, (method, end)


# Behind


class Clock:
    def __init__(self):
        self.now_s = 1_000.0
        self.commit_age_ms = 0

    def __call__(self):
        return self.now_s

    def age(self):
        return self.commit_age_ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def overload(clock):
    return Overload(Patience(new_ms=250, most_ms=1_000, commit_ms=2_000), clock.age, clock)


def refused(overload):
    return [each.name for each in (Urgency.NEW, Urgency.USUAL) if overload.refuses(each)]


def test_a_server_that_keeps_up_refuses_nothing(overload, clock):
    assert refused(overload) == []
    for _ in range(100):
        overload.look()
        clock.now_s += LOOK_MS / 1_000
        assert refused(overload) == []


@pytest.mark.parametrize(
    ("late_s", "expected"),
    [(0.25, []), (0.26, ["NEW"]), (1.0, ["NEW"]), (1.01, ["NEW", "USUAL"]), (60, ["NEW", "USUAL"])],
)
def test_the_longer_a_turn_takes_the_more_is_refused_in_it(overload, clock, late_s, expected):
    overload.look()
    clock.now_s += late_s
    assert refused(overload) == expected
    overload.look()
    assert refused(overload) == []


def test_behind_a_commit_that_does_not_end_nothing_new_gathers(overload, clock):
    clock.commit_age_ms = 2_000
    overload.look()
    assert refused(overload) == []
    clock.commit_age_ms = 2_001
    overload.look()
    assert refused(overload) == ["NEW"]
    clock.commit_age_ms = 0
    overload.look()
    assert refused(overload) == []


def test_an_overload_is_two_lines_in_the_log_however_much_is_refused(overload, clock, caplog):
    caplog.set_level(logging.INFO)
    for _ in range(50):
        overload.look()
        clock.now_s += 0.3
        refused(overload)
    for _ in range(50):
        overload.look()
        clock.now_s += 0.05
    assert [each.getMessage() for each in caplog.records] == [
        "overload began",
        "overload ended seconds=14.7 refused=50",
    ]


# What a client sees


class Kept(Exchange):
    """A request whose answer is kept."""

    def write(self):
        """It has it."""


def asked(urgent_path, overload, before=BUSY_MIN):
    overload.asked = before
    handled = []
    routes = [
        Route("POST", "spaces/{}/leases", lambda *_: handled.append("new")),
        Route("GET", "intents/{}", lambda *_: handled.append("usual")),
        Route("PATCH", "leases/{}", lambda *_: handled.append("vital")),
    ]
    grantor = Grantor(MemoryEngine(), Limits(), member="test")
    service = Service(grantor, Limits(), Router(routes), Gate(), overload)
    exchange = Kept(service, *urgent_path.split(" "), "", {b"host": b"localhost"})
    service.dispatch(exchange)
    return handled, exchange


def test_a_refusal_says_that_nothing_happened_and_when_to_come_back(overload, clock):
    overload.look()
    clock.now_s += 0.5
    handled, exchange = asked("POST /api/v1/spaces/s/leases", overload)
    assert (handled, exchange.status, exchange.extra) == ([], 429, b"retry-after: 1\r\n")
    problem = json.loads(exchange.payload)
    assert (problem["error"]["code"], problem["retry_after_seconds"]) == ("overloaded", 1.0)
    assert "nothing happened" in problem["message"]


def test_a_renewal_is_served_however_far_behind_the_server_is(overload, clock):
    overload.look()
    clock.now_s += 3_600
    clock.commit_age_ms = 3_600_000
    assert asked("PATCH /api/v1/leases/l", overload)[0] == ["vital"]
    assert asked("GET /api/v1/intents/i", overload)[1].status == 429


def test_a_server_that_slept_or_had_one_long_request_is_not_behind(overload, clock):
    overload.look()
    clock.now_s += 3_600
    assert asked("POST /api/v1/spaces/s/leases", overload, before=BUSY_MIN - 1)[0] == ["new"]
    assert asked("POST /api/v1/spaces/s/leases", overload, before=BUSY_MIN)[0] == []
    overload.look()
    assert overload.asked == 0


def test_behind_a_commit_that_does_not_end_a_quiet_server_refuses_too(overload, clock):
    clock.commit_age_ms = 2_001
    overload.look()
    assert asked("POST /api/v1/spaces/s/leases", overload, before=overload.asked)[1].status == 429


def test_the_sdk_waits_as_long_as_it_was_told():
    from openintent.client import calls, flows
    from openintent.client.flows import Now, Pause

    shed = Unavailable("busy", status_code=429, code="overloaded", response={"retry_after_seconds": 1.0})
    flow = flows.patiently(calls.get_intent("i"), patience_s=30.0)
    assert isinstance(next(flow), Now)
    assert flow.send(0.0).path.endswith("/intents/i")
    assert isinstance(flow.throw(shed), Now)
    pause = flow.send(0.1)
    assert isinstance(pause, Pause)
    assert 1.0 <= pause.at_least_s <= pause.at_most_s


# Looking

pace = pytest.mark.anyio


@pace
async def test_the_server_looks_again_and_again_until_it_stops(monkeypatch):
    monkeypatch.setattr("openintent.server.overload.LOOK_MS", 0)
    looks = asyncio.Semaphore(0)
    overload = Overload(commit_age_ms=lambda: looks.release() or 0)
    overload.start()
    for _ in range(3):
        await looks.acquire()
    overload.stop()
    await settle()
    assert looks.locked()


# Connections beyond the bounds


BEAT = "POST /api/v1/agents/a/heartbeat"


class Crowd:
    """A house that is full, with room for two guests."""

    def __init__(self):
        self.house = House(connections_max=1, connections_reserved=2)
        self.house.office.router = Router(
            [
                Route("POST", "agents/{}/heartbeat", print, hot=True),
                Route("POST", "spaces/{}/leases", print, hot=True),
                Route("GET", "/livez", print),
                Route("GET", "intents", print),
            ]
        )
        self.regular = self.house.connect()

    def guest(self, what, body=b"{}"):
        line = self.house.connect()
        method, path = what.split(" ")
        line.data_received(request(path, method=method, body=body) * 2)
        return line


@pace
async def test_beyond_the_bound_a_heartbeat_is_served_once():
    crowd = Crowd()
    guest = crowd.guest(BEAT)
    assert crowd.house.office.paths() == ["/api/v1/agents/a/heartbeat"]
    crowd.house.office.answer(0)
    assert guest.transport.statuses() == [200]
    assert b"connection: close" in guest.transport.sent
    assert guest.transport.ended or guest.transport.closed


@pace
async def test_what_arrives_behind_the_request_of_a_guest_is_not_carried_out():
    """Not even if that was answered at once: nobody would ever be told what became of it."""
    crowd, served = Crowd(), []
    crowd.house.office.dispatch = lambda exchange: served.append(exchange) or exchange.conclude_at_once(200, b"{}")
    guest = crowd.guest(BEAT)
    assert (len(served), guest.transport.statuses()) == (1, [200])
    guest.data_received(request("/api/v1/agents/a/heartbeat", method="POST", body=b"{}"))
    assert len(served) == 1


@pace
@pytest.mark.parametrize("what", ["POST /api/v1/spaces/s/leases", "GET /api/v1/intents", "GET /nowhere"])
async def test_beyond_the_bound_nothing_else_is_served(what):
    crowd = Crowd()
    guest = crowd.guest(what, body=b"")
    await settle()
    assert (crowd.house.office.asked, crowd.house.asgi.begun) == ([], [])
    assert (guest.transport.statuses(), guest.transport.problem()) == ([503], "overloaded")
    assert b"retry-after: 1\r\n" in guest.transport.sent
    assert guest.transport.ended or guest.transport.closed


@pace
async def test_beyond_the_bound_the_server_still_says_that_it_lives():
    crowd = Crowd()
    crowd.house.asgi.may_answer.set()
    guest = crowd.guest("GET /livez", body=b"")
    await settle()
    assert guest.transport.statuses() == [200]
    assert guest.transport.closed


@pace
async def test_guests_have_a_bound_too_and_their_places_become_free():
    crowd = Crowd()
    first, _ = crowd.guest(BEAT), crowd.guest(BEAT)
    assert crowd.guest(BEAT).transport.statuses() == [503]
    first.connection_lost(None)
    assert crowd.guest(BEAT).transport.statuses() == []
    for line in [*crowd.house.state.connections]:
        line.connection_lost(None)
    assert not first.guests
    crowd.guest("POST /api/v1/spaces/s/leases")
    assert crowd.house.office.paths()[-1] == "/api/v1/spaces/s/leases"  # not a guest any more


@pace
async def test_a_house_that_is_not_full_has_no_guests():
    crowd = Crowd()
    assert isinstance(crowd.regular.transport, Wire)
    assert not crowd.regular.guests


# Open files


@pytest.fixture
def allowed(monkeypatch):
    """The limits of this process, as far as `make_room` can see; it may raise the first up to the second."""
    limits = [1_024, 4_096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(slice(None), new))
    return limits


def test_room_is_made_for_the_connections_that_are_wanted(allowed):
    settings = Settings(connections_max=2_000, connections_per_address_max=2_000, connections_reserved=100)
    assert make_room(settings) == settings
    assert allowed == [2_000 + 100 + FILES_BESIDES, 4_096]


def test_room_that_is_there_is_left_as_it_is(allowed):
    settings = Settings(connections_max=500, connections_per_address_max=500)
    assert make_room(settings) == settings
    assert allowed == [1_024, 4_096]


@pytest.mark.parametrize("limit", [4_096, 300, 64])
def test_where_there_is_no_room_fewer_connections_are_taken_and_it_is_said(allowed, caplog, limit):
    allowed[:] = [min(limit, 1_024), limit]
    made = make_room(Settings())
    assert allowed == [limit, limit]
    assert 1 <= made.connections_per_address_max <= made.connections_max
    assert made.connections_max == 1 or made.connections_max + made.connections_reserved + FILES_BESIDES <= limit
    assert caplog.records[0].getMessage().startswith("connections limited")


def test_no_limit_at_all_is_enough(allowed):
    allowed[:] = [resource.RLIM_INFINITY, resource.RLIM_INFINITY]
    assert make_room(Settings()) == Settings()
