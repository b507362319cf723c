"""Who may do what: every kind of caller, on every route, with what is its own and with what is another's.

A route that is new must be given a line in `key_words.ASKS`, with its kind; the kinds are the rows below.
"""

import pytest
from http_words import running_server
from key_words import AGENTS, ASKS, OWNERS, Things, ask, callers, connected, name_of

from openintent.server.routes import ROUTES

# open      needs no key
# read      every good key may read everything
# act       done in the name of the agent that asks, on what all share
# hold      done by the holder of a lease
# self      done for the agent that is named in the path or the body
# operate   for operators
#
# own       ada asks about ada's
# foreign   ada asks about eve's
# posing    ada's key says that it is eve, about eve's
#
# `bound` is bound to ada, `prefix` to ad*.
MATRIX = """
kind     case     none  garbage  revoked  expired  bound  prefix  unbound  operator  dev

open     own      ok    ok       ok       ok       ok     ok      ok       ok        ok
open     foreign  ok    ok       ok       ok       ok     ok      ok       ok        ok
open     posing   ok    ok       ok       ok       ok     ok      ok       ok        ok

read     own      401   401      401      401      ok     ok      ok       ok        ok
read     foreign  401   401      401      401      ok     ok      ok       ok        ok
read     posing   401   401      401      401      ok     ok      ok       ok        ok

act      own      401   401      401      401      ok     ok      ok       ok        ok
act      foreign  401   401      401      401      ok     ok      ok       ok        ok
act      posing   401   401      401      401      403    403     ok       ok        ok

hold     own      401   401      401      401      ok     ok      ok       ok        ok
hold     foreign  401   401      401      401      404    404     404      404       404
hold     posing   401   401      401      401      403    403     ok       ok        ok

self     own      401   401      401      401      ok     ok      ok       ok        ok
self     foreign  401   401      401      401      403    403     ok       ok        ok
self     posing   401   401      401      401      403    403     ok       ok        ok

operate  own      401   401      401      401      403    403     403      ok        ok
operate  foreign  401   401      401      401      403    403     403      ok        ok
operate  posing   401   401      401      401      403    403     403      ok        ok
"""
_TITLES, *_ROWS = [line.split() for line in MATRIX.splitlines() if line]
KINDS = _TITLES[2:]
EXPECTED = {(row[0], row[1]): dict(zip(KINDS, row[2:], strict=True)) for row in _ROWS}

# So many wrong keys as here, nobody shows in an ordinary life.
PATIENT = "key_failures_max = 1000000"


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """The address of a server with keys, what each caller shows to it, and the address of one in dev mode."""
    folder = tmp_path_factory.mktemp("matrix")
    config, file = folder / "server.toml", folder / "keys"
    config.write_text(PATIENT)
    shown = callers(file)
    with running_server("--keys", str(file), "--config", str(config)) as url, running_server() as dev_url:
        yield url, shown, dev_url


@pytest.fixture(scope="module", params=["hot", "asgi"])
def everybody(request, servers):
    """A client for each kind of caller, all by one lane."""
    url, shown, dev_url = servers
    with connected(url, request.param, shown) as made, connected(dev_url, request.param, {"dev": None}) as dev:
        yield made | dev


@pytest.fixture(scope="module")
def untouched(everybody):
    """Things for those who may not change them."""
    return {owner: Things(everybody["operator"], owner) for owner in OWNERS.values()}


def test_every_route_has_its_line_and_every_line_its_route():
    names = {name_of(route) for route in ROUTES}
    assert {"to be added to key_words.ASKS": names - set(ASKS), "to be taken out": set(ASKS) - names} == {
        "to be added to key_words.ASKS": set(),
        "to be taken out": set(),
    }


def test_every_kind_of_request_has_its_rows():
    assert {ask.kind for ask in ASKS.values()} == {kind for kind, _ in EXPECTED}
    assert {case for _, case in EXPECTED} == set(AGENTS)


def test_open_and_operators_routes_are_those_that_the_table_says():
    marked = {name_of(route): "open" if route.open else "operate" if route.operator else "" for route in ROUTES}
    said = {name: ask.kind if ask.kind in ("open", "operate") else "" for name, ask in ASKS.items()}
    assert marked == said


@pytest.mark.parametrize("case", AGENTS)
@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_each_caller_gets_what_the_matrix_says(everybody, untouched, route, case):
    expected = EXPECTED[ASKS[name_of(route)].kind, case]
    got = {}
    for kind, outcome in expected.items():
        # In dev mode everybody is an operator: so is who makes the things to ask about.
        maker = everybody["dev" if kind == "dev" else "operator"]
        things = untouched[OWNERS[case]] if outcome in ("401", "403") else Things(maker, OWNERS[case])
        got[kind] = told(everybody[kind], route, things, AGENTS[case])
    assert got == expected


def told(caller, route, things, agent):
    reply = ask(caller, route, things, agent)
    if reply.status_code in (401, 403):
        # The ledger had no part in it: nothing can have changed.
        assert "x-rev" not in reply.headers
        assert reply.json()["error"]["hint"]
    assert ("www-authenticate" in reply.headers) == (reply.status_code == 401)
    return "ok" if reply.is_success else str(reply.status_code)
