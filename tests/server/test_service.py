"""What the service answers when something fails: said in JSON, logged once, and honest about what happened."""

import asyncio
import json

import pytest

from openintent.engines.memory import MemoryEngine
from openintent.grantor.grantor import Grantor, NotServing, Refusal
from openintent.model import Limits
from openintent.server.auth import Gate
from openintent.server.exchange import NOWHERE, At, Exchange
from openintent.server.routing import Match, Route, Router
from openintent.server.service import Service


class Shown(Exchange):
    """A request whose answer is kept."""

    sent: int = 0

    def write(self) -> None:
        self.sent += 1


def asked(handler, *, method="GET", path="/api/v1/thing"):
    grantor = Grantor(MemoryEngine(), Limits(), member="test")
    service = Service(grantor, Limits(), Router([Route("GET", "thing", handler)]), Gate())
    exchange = Shown(service, method, path, "", {})
    service.dispatch(exchange)
    return exchange


def problem_in(exchange):
    return json.loads(exchange.payload)


def test_a_bug_of_ours_is_a_500_in_json_that_tells_nothing_of_our_insides(caplog):
    def broken(service, exchange):
        raise RuntimeError("secret path")

    exchange = asked(broken)
    assert (exchange.status, exchange.sent) == (500, 1)
    assert problem_in(exchange)["error"]["code"] == "internal"
    assert b"secret" not in exchange.payload
    assert len(caplog.records) == 1


@pytest.mark.anyio
async def test_a_bug_behind_an_await_is_answered_too(caplog):
    async def broken(service, exchange):
        await asyncio.sleep(0)
        raise RuntimeError("secret path")

    exchange = asked(broken)
    await exchange.desk.close()
    assert (exchange.status, exchange.sent) == (500, 1)
    assert len(caplog.records) == 1


def test_while_nothing_is_served_nothing_happened_and_one_may_try_again(caplog):
    def unavailable(service, exchange):
        raise NotServing

    exchange = asked(unavailable)
    assert (exchange.status, exchange.extra) == (503, b"retry-after: 1\r\n")
    assert problem_in(exchange)["error"]["code"] == "unavailable"
    assert caplog.records == []


def test_what_may_have_happened_is_said_to_be_unknown():
    exchange = asked(lambda service, exchange: service.refuse(exchange, Refusal.OUTCOME_UNKNOWN))
    assert exchange.status == 504
    assert problem_in(exchange)["error"]["code"] == "outcome_unknown"


def test_what_is_refused_in_the_end_has_no_place_among_the_decisions():
    def decided(service, exchange):
        exchange.place = At(3, 7)
        exchange.refuse(Refusal.UNAVAILABLE)

    exchange = asked(decided)
    assert (exchange.status, exchange.place) == (503, NOWHERE)
    assert b"x-rev" not in exchange.mark_lines()


def test_readiness_is_a_503_while_there_is_no_grantor():
    from openintent.server.routes.system import readyz

    grantor = Grantor(MemoryEngine(), Limits(), member="test")  # not started
    service = Service(grantor, Limits(), Router([Route("GET", "/readyz", readyz)]), Gate())
    exchange = Shown(service, "GET", "/readyz", "", {})
    service.dispatch(exchange)
    assert (exchange.status, problem_in(exchange)) == (
        503,
        {"status": "not ready", "role": "standby", "term": 0},
    )


def test_the_text_of_an_exchange_shows_no_key():
    exchange = Shown(None, "GET", "/thing", "key=secret", {b"x-api-key": b"secret"}, b"secret")
    assert repr(exchange) == "<Shown GET /thing>"


def test_a_client_that_went_away_is_not_answered():
    exchange = asked(lambda service, exchange: exchange.gone() or exchange.conclude_at_once(200, b"{}"))
    assert exchange.sent == 0


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/api/v1/a/x/b/y", ["x", "y"]),
        ("/v1/a/x%2Fz/b/y", ["x%2Fz", "y"]),
        ("/api/v1/a//b/y", None),
        ("/api/v1/a/x/b/y/", None),
        ("/api/v1/a/x/b", None),
        ("/api/v1/a/{}/b/{}", ["{}", "{}"]),
        ("/api/v1/", None),
        ("/a/x/b/y", None),
        ("/", None),
    ],
)
def test_a_path_is_matched_before_it_is_decoded(path, names):
    router = Router([Route("GET", "a/{}/b/{}", print)])
    found = router.find("GET", path)
    assert (found.names if isinstance(found, Match) else found) == names
