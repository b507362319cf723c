"""Late in a turn what can wait rests, and is taken up by the next; what keeps a lease is served."""

import pytest
from lane_words import House, request, settle

from openintent.server.heads import Heads
from openintent.server.overload import BUSY_MIN, Overload, Patience
from openintent.server.routing import Route, Router
from openintent.server.urgency import Urgency

pace = pytest.mark.anyio


class Clock:
    def __init__(self):
        self.now_s = 1_000.0

    def __call__(self):
        return self.now_s

    def pass_ms(self, ms):
        self.now_s += ms / 1_000


@pytest.fixture
def clock():
    return Clock()


class Rush:
    """A house late in a turn, with much behind it."""

    def __init__(self, **bounds):
        self.house = House(**bounds)
        self.office, self.overload = self.house.office, self.house.office.overload
        self.office.router = Router(
            [
                Route("POST", "agents/{}/heartbeat", print, hot=True),
                Route("POST", "spaces/{}/leases", print, hot=True),
                Route("GET", "intents/{}", print, hot=True),
            ]
        )
        self.house.config.http_protocol_class.familiar = Heads(self.office.router, name_chars_max=256)
        self.is_late()

    def is_late(self):
        self.overload.turn_until_s, self.overload.asked = 0.0, BUSY_MIN

    def came(self, what, **more):
        line = self.house.connect()
        method, path = what.split()
        line.data_received(request(path, method=method, **{"body": b"{}", **more}))
        return line

    def served(self):
        """The names in the paths."""
        return [path.split("/")[4] for path in self.office.paths()]


NEW_ONE, USUAL_ONE, VITAL_ONE = (
    "POST /api/v1/spaces/{}/leases",
    "GET /api/v1/intents/{}",
    "POST /api/v1/agents/{}/heartbeat",
)


@pace
@pytest.mark.parametrize("what", [NEW_ONE, USUAL_ONE, "GET /api/v1/nowhere/{}"])
async def test_late_in_a_turn_what_can_wait_rests_until_the_next(what):
    rush = Rush()
    line = rush.came(what.format("a"))
    await settle()
    assert (rush.office.asked, rush.house.asgi.begun, line.transport.paused) == ([], [], True)
    rush.overload.look()
    await settle()
    assert rush.served() + [path.split("/")[4] for path in rush.house.asgi.begun] == ["a"]
    assert not line.transport.paused


@pace
@pytest.mark.parametrize("more", ["", "?why=not", "?long=" + "x" * 4_000])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_late_in_a_turn_what_keeps_a_lease_is_served(more, version):
    rush = Rush()
    line = rush.came(VITAL_ONE.format("a") + more, version=version)
    rush.house.config.http_protocol_class.turn.end()
    assert rush.served() == ["a"]
    assert not line.transport.paused


@pace
async def test_what_goes_on_with_a_request_does_not_rest():
    """It may be the rest of a renewal."""
    rush = Rush()
    line = rush.came(VITAL_ONE.format("a"), body=b"")
    whole = request("/api/v1/agents/b/heartbeat", method="POST", body=b"{}")
    rush.overload.asked = 0
    line.data_received(whole[:20])
    rush.is_late()
    line.data_received(whole[20:])
    assert rush.served() == ["a", "b"]


@pace
async def test_a_guest_does_not_rest_because_others_wait_for_its_place():
    rush = Rush(connections_max=1, connections_reserved=1)
    rush.house.connect()
    assert rush.came(NEW_ONE.format("a")).transport.statuses() == [503]


@pace
async def test_what_rests_is_taken_up_in_its_order_and_each_kind_by_turns():
    rush = Rush()
    for name in "abc":
        rush.came(NEW_ONE.format(name))
    for name in "xy":
        rush.came(USUAL_ONE.format(name))
    rush.overload.look()
    assert rush.served() == ["a", "x", "b", "y", "c"]


@pace
async def test_a_turn_takes_up_no_more_than_it_has_time_for(clock):
    rush = Rush()
    rush.overload._clock_s = clock
    rush.office.dispatch = lambda exchange: served.append(exchange) or clock.pass_ms(40)
    served = []
    rush.overload.asked = 0
    lines = [rush.came(NEW_ONE.format(name)) for name in "abcdef"]
    for first in served:
        first.conclude_at_once(200, b"{}")
    served.clear()
    rush.is_late()
    for line, name in zip(lines, "abcdef", strict=True):  # now it is recognised, and would wait for the end of the turn
        line.data_received(request(f"/api/v1/spaces/{name}/leases", method="POST", body=b"{}"))
    numbers = []
    for _ in range(3):
        rush.overload.look()
        numbers.append(len(served))
    assert numbers == [3, 6, 6]
    assert not any(line.transport.paused for line in lines)


@pace
async def test_an_answer_does_not_make_a_connection_read_on_whose_next_request_rests():
    """Else what came later would be carried out first."""
    rush = Rush()
    rush.overload.asked = 0
    line = rush.came(NEW_ONE.format("a"))
    rush.house.config.http_protocol_class.turn.end()
    rush.is_late()
    line.data_received(request("/api/v1/spaces/b/leases", method="POST", body=b"{}"))
    rush.office.answer(0)
    line.pause_writing()
    line.resume_writing()
    assert line.transport.statuses() == [200]
    assert line.transport.paused
    rush.overload.look()
    assert rush.served() == ["a", "b"]
    assert not line.transport.paused


@pace
async def test_what_finds_no_room_to_rest_is_served(monkeypatch):
    rush = Rush()
    some = len(request("/api/v1/spaces/a/leases", method="POST", body=b"{}"))
    monkeypatch.setattr("openintent.server.overload.RESTING_BYTES_MAX", 2 * some)
    for name in "abc":
        rush.came(NEW_ONE.format(name))
    await settle()
    assert rush.served() == ["c"]
    rush.overload.look()
    rush.is_late()
    rush.came(NEW_ONE.format("d"))
    assert rush.served() == ["c", "a", "b"]


@pace
async def test_who_rests_may_be_gone_by_the_next_turn_or_unable_to_read():
    rush = Rush()
    gone, deaf = rush.came(NEW_ONE.format("gone")), rush.came(NEW_ONE.format("deaf"))
    gone.transport.close()
    deaf.pause_writing()
    rush.overload.look()
    assert rush.served() == ["deaf"]
    assert deaf.transport.paused
    deaf.resume_writing()
    assert not deaf.transport.paused


@pace
async def test_who_rests_when_the_server_stops_is_told_that_nothing_happened():
    rush = Rush()
    line = rush.came(NEW_ONE.format("a"))
    line.shutdown()
    assert (line.transport.statuses(), line.transport.problem()) == ([503], "unavailable")
    assert not line.transport.paused  # what else it sends is thrown away: a reset would destroy this answer
    rush.overload.look()
    assert rush.served() == []


@pace
async def test_what_rests_is_not_idle():
    rush = Rush(idle_s_max=75)
    line = rush.came(VITAL_ONE.format("a"))
    rush.office.answer(0)
    rush.house.wait(74)
    line.data_received(request("/api/v1/spaces/a/leases", method="POST", body=b"{}"))
    rush.house.wait(5)
    assert not line.transport.closed


@pace
async def test_a_few_requests_do_not_make_a_turn_too_long():
    house = House()
    house.office.overload.turn_until_s = 0.0
    line = house.connect()
    line.data_received(request("/hot/a"))
    assert not line.transport.paused


class Sleeper:
    """A connection that is never served."""

    def rest(self):
        """As it does."""

    def go_on(self, data):
        raise AssertionError


@pytest.mark.parametrize(
    ("urgency", "rested_ms", "into_ms", "expected"),
    [
        (Urgency.NEW, 250, 51, []),
        (Urgency.NEW, 251, 50, []),
        (Urgency.NEW, 251, 51, ["NEW"]),
        (Urgency.NEW, 5_000, 51, ["NEW"]),
        (Urgency.USUAL, 1_000, 51, []),
        (Urgency.USUAL, 1_001, 50, []),
        (Urgency.USUAL, 1_001, 51, ["USUAL"]),
    ],
)
def test_what_has_rested_for_too_long_is_refused_in_the_second_half_of_a_turn(
    clock, monkeypatch, urgency, rested_ms, into_ms, expected
):
    """In the first it is served: else nothing would get through that is asked for again at once."""
    overload = Overload(Patience(new_ms=250, most_ms=1_000), clock_s=clock)
    assert overload.rest(Sleeper(), b"request", urgency)
    clock.pass_ms(rested_ms)
    monkeypatch.setattr(overload, "_take_up", lambda: None)
    overload.look()
    clock.pass_ms(into_ms)
    assert [each.name for each in (Urgency.NEW, Urgency.USUAL) if overload.refuses(each)] == expected
