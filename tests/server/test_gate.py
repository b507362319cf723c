"""The gate that asks for keys, and what a server that has some answers."""

from datetime import timedelta

import pytest
from http_words import Api, refused, running_server
from key_words import NOON, Ring, make_key, problems_of, write_keys

from openintent.server import keys
from openintent.server.auth import ADDRESSES_MAX, FAILURES_S, Failures, Gate
from openintent.server.exchange import Exchange
from openintent.server.problems import Refused
from openintent.server.routing import Route
from openintent.server.settings import BadSettings, Settings
from openintent.server.settings import load as load_settings

HOUR = timedelta(hours=1)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "leases.db.keys"


class Visitor(Exchange, kw_only=True):
    came_from: str

    @property
    def address(self):
        return self.came_from

    def write(self):
        """Nobody looks at the answer."""


def knock(address="192.0.2.1", route=None, **headers):
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Visitor(None, "GET", "/", "", fields, route=route, came_from=address)


@pytest.fixture
def guarded(file):
    """A gate with one key, and the key."""
    text, stored = make_key("ci")
    write_keys(file, stored)
    return Gate(Ring(file), failures_max=3), text


def let_in(gate, knock):
    gate.check(knock)
    return knock.principal.name


def turned_away(gate, knock):
    with pytest.raises(Refused) as refusal:
        gate.check(knock)
    assert knock.principal is keys.NOBODY
    return refusal.value


def test_a_key_is_shown_in_either_header_or_in_both(guarded):
    gate, key = guarded
    assert let_in(gate, knock(x_api_key=key)) == "ci"
    assert let_in(gate, knock(authorization=f"Bearer {key}")) == "ci"
    assert let_in(gate, knock(authorization=f"bearer  {key} ")) == "ci"
    assert let_in(gate, knock(x_api_key=key, authorization=f"Bearer {key}")) == "ci"
    assert let_in(gate, knock(x_api_key=key, authorization="Basic cHJveHk6c2VjcmV0")) == "ci"


@pytest.mark.parametrize(
    ("headers", "hint"),
    [
        ({}, "send it as X-API-Key"),
        ({"x_api_key": ""}, "send it as X-API-Key"),
        ({"authorization": "Basic {key}"}, "send it as X-API-Key"),
        ({"authorization": "Bearer"}, "send it as X-API-Key"),
        ({"x_api_key": "{key}", "authorization": "Bearer other"}, "two keys"),
        ({"x_api_key": "other", "authorization": "Bearer {key}"}, "two keys"),
        ({"x_api_key": "dev-user-key"}, "the key of an example"),
        ({"authorization": "Bearer dev-key"}, "the key of an example"),
        ({"x_api_key": "{key}x"}, "no such key"),
    ],
)
def test_whoever_shows_no_good_key_is_told_what_to_do(guarded, headers, hint):
    gate, key = guarded
    away = turned_away(gate, knock(**{name: value.format(key=key) for name, value in headers.items()}))
    assert (away.status, away.problem.error.code) == (401, "unauthenticated")
    assert away.problem.detail == "Invalid or missing API key"
    assert hint in away.problem.error.hint
    assert away.extra.startswith(b"www-authenticate: Bearer")


@pytest.mark.parametrize(("ended", "said"), [({"expires": -HOUR}, "has expired"), ({"revoked": -HOUR}, "was revoked")])
def test_the_bearer_of_a_key_that_has_ended_is_told_so(file, ended, said):
    text, stored = make_key(now=NOON, **ended)
    write_keys(file, stored)
    gate = Gate(Ring(file), failures_max=1)
    for _ in range(3):  # every time: it is not one who tries
        away = turned_away(gate, knock(x_api_key=text))
        assert away.status == 401
        assert said in away.problem.error.hint


def test_an_open_route_needs_no_key_and_makes_nobody_somebody(guarded):
    gate, key = guarded
    door = Route("GET", "/livez", print, open=True)
    assert let_in(gate, knock(route=door)) == "nobody"
    assert let_in(gate, knock(route=door, x_api_key="wrong")) == "nobody"
    assert let_in(gate, knock(route=door, x_api_key=key)) == "ci"
    turned_away(gate, knock(route=Route("GET", "leases", print)))


def test_with_a_key_one_may_come_by_any_name_and_from_any_page(guarded):
    gate, key = guarded
    assert let_in(gate, knock(host="leases.example", origin="https://app.example", x_api_key=key)) == "ci"


def test_until_there_is_a_file_everybody_on_this_machine_is_an_operator(file):
    gate = Gate(Ring(file))
    visitor = knock(x_api_key="any")
    gate.check(visitor)
    assert visitor.principal.operator
    assert gate.stands(visitor.principal)
    assert turned_away(gate, knock(host="evil.example")).status == 403
    write_keys(file, make_key()[1])
    gate.ring.look()
    assert turned_away(gate, knock(x_api_key="any")).status == 401
    assert not gate.stands(visitor.principal)


def test_too_many_wrong_keys_are_slowed_down_but_never_a_good_one(guarded, caplog):
    gate, key = guarded
    assert [turned_away(gate, knock(x_api_key="wrong")).status for _ in range(5)] == [401, 401, 401, 429, 429]
    away = turned_away(gate, knock(x_api_key="wrong"))
    assert away.problem.error.code == "limit_reached"
    assert 0 < away.problem.retry_after_seconds <= FAILURES_S
    assert away.extra.startswith(b"retry-after: ")
    assert let_in(gate, knock(x_api_key=key)) == "ci"
    assert turned_away(gate, knock("192.0.2.2", x_api_key="wrong")).status == 401
    assert turned_away(gate, knock()).status == 401  # without a key nothing is tried
    assert len(problems_of(caplog)) == 1


def test_the_count_of_wrong_keys_begins_anew_and_stays_small():
    now_s = 100.0
    failures = Failures(1, lambda: now_s)
    assert [failures.count("a"), failures.count("a")] == [None, FAILURES_S]
    now_s += FAILURES_S
    assert failures.count("a") is None
    for number in range(5 * ADDRESSES_MAX):
        failures.count(f"address {number}")
    assert len(failures._counts) <= ADDRESSES_MAX + 1
    assert failures.count("one of the others") is not None


# Settings


def faults_of(**flags):
    with pytest.raises(BadSettings) as raised:
        load_settings(flags, env={})
    return str(raised.value)


def test_keys_are_beside_the_database_unless_said_otherwise(tmp_path):
    assert Settings(engine=f"sqlite:///{tmp_path}/leases.db").key_file == tmp_path / "leases.db.keys"
    assert Settings(engine=f"sqlite:///{tmp_path}/leases.db", keys="mine").key_file.name == "mine"
    assert Settings(engine="memory:").key_file is None
    (tmp_path / "link.db").symlink_to(tmp_path / "leases.db")
    assert Settings(engine=f"sqlite:///{tmp_path}/link.db").key_file == tmp_path / "leases.db.keys"


def test_other_addresses_need_keys_and_tls(tmp_path):
    engine, host = f"sqlite:///{tmp_path}/leases.db", "192.0.2.1"
    assert "openintent keys add" in faults_of(engine=engine, host=host, behind_tls=True)
    write_keys(tmp_path / "leases.db.keys", make_key()[1])
    assert "--behind-tls" in faults_of(engine=engine, host=host)
    assert load_settings({"engine": engine, "host": host, "behind_tls": True}, env={}).host == host
    assert load_settings({"engine": engine, "host": host}, env={}, to_serve=False).host == host


def test_a_key_file_that_is_named_must_be_there(tmp_path):
    assert f"openintent keys add NAME --file {tmp_path}/keys" in faults_of(keys=f"{tmp_path}/keys")


# Over HTTP


@pytest.fixture(scope="module")
def shown():
    return {
        "ada": make_key(agents=("ada",)),
        "twin": make_key(agents=("ada", "bob")),
        "any": make_key(),
        "chief": make_key(operator=True),
    }


@pytest.fixture(scope="module", params=["hot", "asgi"])
def api(request, tmp_path_factory, shown):
    file = tmp_path_factory.mktemp("keys") / "keys"
    write_keys(file, *(stored for _, stored in shown.values()))
    with running_server("--keys", str(file)) as url:
        api = Api(url, request.param)
        with api.http:
            yield api


@pytest.fixture
def by(shown):
    """The header of a key."""
    return {name: {"X-API-Key": text} for name, (text, _) in shown.items()}


def test_whoever_is_named_elsewhere_than_in_the_header_is_checked_too(api, by, space):
    asks = [
        ("POST", f"{space}/leases", {"agent_id": "eve"}),
        ("POST", "/agents/eve/heartbeat", {}),
        ("POST", "/intents", {"title": "Report", "created_by": "eve"}),
        ("POST", "/agents/register", {"agent_id": "eve"}),
        ("POST", "/agents/register", {"agent_id": "eve" * 10_000}),
    ]
    for method, path, body in asks:
        problem = refused(api.send(method, path, body, agent="ada", headers=by["ada"]), 403, "forbidden")
        assert problem["error"]["hint"] == "it may act as ada"
        assert len(problem["message"]) < 300
    assert api.get(f"{space}/leases", headers=by["ada"]).json()["leases"] == []


def test_the_name_in_the_body_counts_if_the_key_allows_it(api, by, space):
    reply = api.post(f"{space}/leases", {"agent_id": "bob"}, agent="eve", headers=by["twin"])
    assert reply.json()["agent_id"] == "bob"


def test_a_key_for_an_agent_is_good_for_its_instances_which_share_no_leases(api, by, space):
    for number in ("1", "2"):
        words = {"agent": f"ada~{number}", "headers": by["ada"]}
        assert api.post(f"{space}/leases", {"scope": number}, **words).json()["agent_id"] == f"ada~{number}"
        assert api.post(f"/agents/ada~{number}/heartbeat", {}, **words).status_code == 200
    held = api.post(f"{space}/leases", {"scope": "1"}, agent="ada~2", headers=by["ada"])
    assert refused(held, 409, "lease_held")["current_holder"] == "ada~1"
    refused(api.post(f"{space}/leases", {"scope": "3"}, agent="adam~1", headers=by["ada"]), 403, "forbidden")


def test_a_bound_key_acts_under_a_name(api, by, space):
    intent = f"/intents/{api.post('/intents', {'title': 'Report'}, headers=by['ada']).json()['id']}"
    change = {"body": {"state": {"a": 1}}, "agent": None}
    reply = api.patch(f"{intent}/state", **change, headers=by["ada"] | {"If-Match": "*"})
    assert "may act as ada" in refused(reply, 400, "agent_required")["error"]["hint"]
    assert api.patch(f"{intent}/state", **change, headers=by["any"] | {"If-Match": "*"}).status_code == 200


def test_a_lease_is_its_agents_whatever_key_it_was_acquired_with(api, by, space):
    lease = api.post(f"{space}/leases", {}, agent="ada", headers=by["ada"]).json()
    path = f"/leases/{lease['id']}"
    assert api.patch(path, {}, agent="ada", headers=by["twin"]).status_code == 200
    refused(api.patch(path, {}, agent="bob", headers=by["twin"]), 404, "not_found")
    refused(api.delete(path, agent="eve", headers=by["any"]), 404, "not_found")
    assert api.delete(path, agent="ada", headers=by["any"]).status_code == 200


def test_no_page_is_invited(api, by, space):
    headers = by["any"] | {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    for reply in (api.get("/leases", headers=headers), api.send("OPTIONS", "/leases", headers=headers)):
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_the_address_of_the_connection_counts_and_not_what_is_said_about_it(api, by):
    wrong = [{"X-API-Key": "wrong", "X-Forwarded-For": f"192.0.2.{number}"} for number in range(30)]
    statuses = [api.get("/intents/x", headers=headers).status_code for headers in wrong]
    assert set(statuses[:-1]) <= {401, 429}
    assert statuses[-1] == 429
    assert api.get("/leases", headers=by["any"]).status_code == 200
