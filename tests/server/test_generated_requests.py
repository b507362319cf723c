"""Requests of every route, made up from the shapes that it reads: the wrong ones are refused and change nothing.

No fault may be answered with a 5xx, or with the code of another fault; and what is right is not refused as malformed.
"""

from collections import Counter
from itertools import count
from random import Random

import pytest
from faults_around import bad, faults_of
from house_words import House
from hypothesis import HealthCheck, Phase, given, seed, settings
from proving import size
from strategies import families, fields_of, valid

from openintent.errors import BY_CODE
from openintent.server.routes import ROUTES

FAMILIES = families()
BAD = size("bad_requests", 120)  # of each family
GOOD = size("good_requests", 30)
SEED = size("requests_seed", 0)
BAD_OF_ROUTE_MIN = 6
GOOD_OF_ROUTE_MIN = 4
MALFORMED = ("invalid", "bad_request")


@pytest.fixture(scope="module")
def house():
    house = House()
    yield house
    house.close()


@pytest.fixture(scope="module")
def things(house):
    """What there is to be damaged."""
    return house.furnish()


def each(strategy, number, check):
    """Let so many be drawn and checked: the same ones in each run, until the seed is another."""
    bounds = settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    bounds(seed(SEED)(given(strategy)(check)))()


def share(family, whole, least):
    return max(least, -(-whole // len(FAMILIES[family])))


@pytest.mark.timeout(300)  # at the largest size, on a busy machine
@pytest.mark.parametrize("family", FAMILIES)
def test_a_request_with_one_thing_wrong_is_refused_for_that_and_changes_nothing(house, things, family, figures):
    seen, lanes, different = Counter(), count(), set()
    before = house.everything()

    def check(request):
        raw = request.written(things, chunked=bool(next(lanes) % 2))
        different.add(hash(request.written(things, chunked=False)))
        status, said = house.ask(raw)
        assert 400 <= status < 500, (request, status, said)
        code = said["error"]["code"]
        assert code in BY_CODE
        assert code in request.codes, (request, status, said)
        assert house.everything() == before, request
        seen[code] += 1

    number = share(family, BAD, BAD_OF_ROUTE_MIN)
    for done, route in enumerate(FAMILIES[family]):
        # One half goes through the list, so that no kind of fault is left to chance; the other one is left to it.
        faults = Random(f"{SEED} {route.name}").sample(faults_of(route), len(faults_of(route)))
        for fault in faults[: number // 2]:
            each(bad(route, fault), max(1, number // 2 // len(faults)), check)
        each(bad(route), number - number // 2, check)
        figures.progress(done, len(FAMILIES[family]))
    refused = {"different": len(different), "refused": seen.total(), "changed": 0}
    figures.add(f"bad requests, {family}", sent=seen.total(), **refused, codes=dict(seen))


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "streams"])  # those would not end
def test_a_request_with_nothing_wrong_is_not_refused_as_malformed(house, family, figures):
    seen = Counter()
    for done, route in enumerate(FAMILIES[family]):
        seen += codes_of(house, route, share(family, GOOD, GOOD_OF_ROUTE_MIN))
        figures.progress(done, len(FAMILIES[family]))
    refusals = {code: number for code, number in seen.items() if code}
    figures.add(f"good requests, {family}", sent=seen.total(), done=seen[""], malformed=0, refused=refusals)


def codes_of(house, route, number):
    """What right requests were answered with; none is a success. A route that never succeeds was not really tried."""
    seen, lanes = Counter(), count()

    def check(request):
        raw = request.written(house.furnish(), chunked=bool(next(lanes) % 2))
        status, said = house.ask(raw)
        assert 200 <= status < 500, (request, status, said)
        code = "" if status < 300 else said["error"]["code"]
        assert code not in MALFORMED, (request, said)
        seen[code] += 1

    each(valid(route), number, check)
    assert seen[""], (route.name, seen)
    return seen


def test_something_can_be_wrong_with_every_field_that_a_route_reads():
    for route in ROUTES:
        faults = [fault.what for fault in faults_of(route)]
        if route.body is not None:
            assert {each.encode_name for each in fields_of(route.body)} <= {what.partition(":")[0] for what in faults}
        for name in (*route.needs, *route.reads):
            assert f"{name}: bad" in faults, (route.name, name)
