"""Late in a turn what can wait rests, and is taken up by the next; what keeps a lease is served."""

import socket

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
                Route("GET", "/livez", print),
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
async def test_nor_is_it_carried_out_if_it_is_like_those_before():
    """What is recognised does not pass the parser, which would stop it."""
    rush = Rush()
    rush.overload.asked = 0
    line = rush.came(NEW_ONE.format("a"))
    rush.office.answer(0)
    rush.is_late()
    line.data_received(request("/api/v1/spaces/a/leases", method="POST", body=b"{}"))
    line.shutdown()
    rush.overload.look()
    rush.house.config.http_protocol_class.turn.end()
    assert (rush.served(), line.transport.statuses()) == (["a"], [200, 503])


@pace
async def test_who_hung_up_while_they_rested_gets_nothing():
    """What they asked for they may have given up meanwhile, on another connection."""
    rush = Rush()
    gone, here = rush.came(NEW_ONE.format("gone")), rush.came(NEW_ONE.format("here"))
    ends = []
    for line in (gone, here):
        ours, theirs = socket.socketpair()
        line.transport._extra["socket"] = ours
        ends += [ours, theirs]
    ends[1].close()
    rush.overload.look()
    assert rush.served() == ["here"]
    assert (gone.transport.aborted, here.transport.aborted) == (True, False)
    for end in ends:
        end.close()


@pace
async def test_a_bug_of_ours_costs_one_connection_that_rested(caplog):
    rush = Rush()
    unlucky, other = rush.came(NEW_ONE.format("a")), rush.came(NEW_ONE.format("b"))
    unlucky._parse = None
    rush.overload.look()
    assert (unlucky.transport.aborted, rush.served()) == (True, ["b"])
    assert not other.transport.paused
    assert "connection failed" in caplog.text


@pace
async def test_an_ordinary_request_that_was_taken_up_is_begun_in_time():
    rush = Rush()
    for name in "abc":
        rush.came(f"GET /api/v1/nowhere/{name}")
    rush.overload.look()
    await settle()
    assert (len(rush.house.asgi.begun), rush.overload.begun) == (3, 3)


@pace
@pytest.mark.parametrize(
    "raw",
    [
        request("/livez", method="HEAD"),
        b"\r\n" + request("/api/v1/agents/a/heartbeat", method="POST", body=b"{}"),
        request("/api/v1/agents/a/heartbeat", method="POST", body=b"{}")[:12],
        b"GET /" + b"/" * 9_000,
    ],
)
async def test_late_in_a_turn_nothing_rests_of_which_nobody_knows_that_it_can(raw):
    rush = Rush()
    line = rush.house.connect()
    line.data_received(raw)
    assert not line.flow.resting


@pace
async def test_behind_a_last_request_nothing_rests():
    """It is dropped unread; and who sends it is listened to for a while, so that no reset destroys the last answer."""
    rush = Rush()
    line = rush.came(VITAL_ONE.format("a"))
    line.shutdown()
    line.data_received(request("/api/v1/spaces/b/leases", method="POST", body=b"{}"))
    assert line.deaf
    rush.office.answer(0)
    assert (line.transport.statuses(), line.lingering) == ([200], True)


@pace
async def test_what_rests_is_not_idle():
    rush = Rush(idle_s_max=75)
    line = rush.came(VITAL_ONE.format("a"))
    rush.office.answer(0)
    rush.house.wait(74)
    line.data_received(request("/api/v1/spaces/a/leases", method="POST", body=b"{}"))
    rush.house.wait(100)
    assert not line.transport.closed


@pace
async def test_a_few_requests_do_not_make_a_turn_too_long():
    house = House()
    house.office.overload.turn_until_s = 0.0
    line = house.connect()
    line.data_received(request("/hot/a"))
    assert not line.transport.paused


class Sleeper:
    """A connection that notes whether there was time for its request."""

    def __init__(self, overload, urgency, clock, into_ms):
        self.refused = None
        self._ask = lambda: clock.pass_ms(into_ms) or overload.refuses(urgency)

    def rest(self):
        """As it does."""

    def go_on(self, data):
        self.refused = self._ask()


@pytest.mark.parametrize(
    ("urgency", "rested_ms", "into_ms", "expected"),
    [
        (Urgency.NEW, 249, 51, False),
        (Urgency.NEW, 251, 49, False),
        (Urgency.NEW, 251, 51, True),
        (Urgency.NEW, 5_000, 51, True),
        (Urgency.USUAL, 999, 51, False),
        (Urgency.USUAL, 1_001, 49, False),
        (Urgency.USUAL, 1_001, 51, True),
    ],
)
def test_what_has_rested_for_too_long_is_refused_in_the_second_half_of_a_turn(
    clock, urgency, rested_ms, into_ms, expected
):
    """In the first it is served: else nothing would get through that is asked for again at once."""
    overload = Overload(Patience(new_ms=250, most_ms=1_000), clock_s=clock)
    sleeper = Sleeper(overload, urgency, clock, into_ms)
    assert overload.put_to_rest(sleeper, b"request", urgency)
    clock.pass_ms(rested_ms)
    overload.look()
    assert sleeper.refused is expected
    assert not overload.refuses(urgency)  # what was begun meanwhile, and is carried out now, was in time


def test_where_something_rests_there_is_too_much_to_do_however_few_requests_fit_into_a_turn(clock):
    overload = Overload(clock_s=clock)
    overload.look()
    assert overload.asked == 0
    for _ in range(2):
        overload.put_to_rest(Sleeper(overload, Urgency.NEW, clock, 150), b"slow", Urgency.NEW)
    overload.look()
    assert overload.asked == BUSY_MIN
    overload.look()
    overload.look()
    assert overload.asked == 0


class Line:
    """A connection that rests again, as one does for which there was no time."""

    def __init__(self, name, served):
        self.name = name
        self._served = served

    def rest(self):
        """As it does."""

    def go_on(self, data):
        self._served(self.name)


def test_nobody_loses_their_place_to_a_turn_that_was_over(clock):
    overload, served = Overload(clock_s=clock), []
    for name, urgency in (("new", Urgency.NEW), ("x", Urgency.USUAL), ("y", Urgency.USUAL), ("later", Urgency.NEW)):
        overload.put_to_rest(Line(name, lambda name: served.append(name) or clock.pass_ms(101)), b"", urgency)
    turns = []
    for _ in range(4):
        overload.look()
        turns.append(served.copy())
        served.clear()
    assert turns == [["new"], ["x"], ["later"], ["y"]]


def test_what_comes_while_others_rest_rests_behind_them(clock, monkeypatch):
    monkeypatch.setattr("openintent.server.overload.ORDINARY_MAX", 1)
    overload = Overload(clock_s=clock)

    def begin(_name):
        overload.begun += 1

    for name in "ab":
        overload.put_to_rest(Line(name, begin), b"", Urgency.USUAL)
    overload.look()
    assert (overload.begun, overload.turn_until_s) == (1, clock.now_s)
    overload.look()
    assert overload.turn_until_s > clock.now_s
