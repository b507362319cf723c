"""Words for tests with keys: who asks, a request for each route, and things of an agent to ask about."""

import itertools
import json
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

from http_words import Http

from openintent.server import keys
from openintent.server.routing import Route

API = "/api/v1"
IF_MATCH = {"If-Match": "*"}
CANARY = "c4naRyK7Qx9Lm2Vd"  # in every secret: where it is found, a secret was
_numbers = itertools.count(1)


# Keys


def make_key(name="test", *, secret=None, age=timedelta(0), expires=None, revoked=None, now=None, **rights):
    """A key and what is stored of it; `expires` and `revoked` are counted from now."""
    now = now or datetime.now(UTC)
    number = next(_numbers)
    dates = {"expires": expires and now + expires, "revoked": revoked and now + revoked}
    secret = secret or f"{CANARY}-{number}"
    return keys.issued(name, key_id=f"{number:08x}", secret=secret, now=now - age, **dates, **rights)


def write_keys(path, *stored):
    with keys.changing(path) as known:
        known[:] = stored


NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class Ring(keys.KeyRing):
    """One whose day the test decides."""

    def __init__(self, path, **more):
        self.day = NOON
        super().__init__(path, now=lambda: self.day, **more)
        self.open()

    def find_text(self, text):
        return self.find(text.encode())


def problems_of(caplog):
    """What an operator should see."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# Who asks, about what

AGENTS = {"own": "ada", "foreign": "ada", "posing": "eve"}  # who asks
OWNERS = {"own": "ada", "foreign": "eve", "posing": "eve"}  # of what is asked about


def callers(path):
    """Every kind of caller that shows a key, or none, to a server with this key file: what each shows."""
    yesterday, long_ago = timedelta(days=-1), timedelta(days=30)
    made = {
        "revoked": make_key(revoked=yesterday, age=long_ago),
        "expired": make_key(expires=yesterday, age=long_ago),
        "bound": make_key(agents=("ada",)),
        "prefix": make_key(agents=("bob", "ad*")),
        "unbound": make_key(),
        "operator": make_key(operator=True),
    }
    write_keys(path, *(stored for _, stored in made.values()))
    shown = {kind: key for kind, (key, _) in made.items()}
    return {"none": None, "garbage": shown["operator"][:-1] + "!", **shown}


# Routes


@dataclass(frozen=True)
class Ask:
    """How a route is called. What stands in {braces} is a thing of the owner's, or an agent."""

    kind: str  # a row of the matrix
    body: object = None
    headers: dict = field(default_factory=dict)
    query: dict = field(default_factory=dict)


def _events(place):
    return {
        f"GET {place}/events": Ask("read"),
        f"POST {place}/events": Ask("act", {"event_type": "comment"}),
    }


def _leases(base):
    """Of one way to name where a lease is. The thing that is theirs is a lease."""
    return {
        f"GET {base}leases/{{}}": Ask("read"),
        f"PATCH {base}leases/{{}}": Ask("hold", {}),
        f"DELETE {base}leases/{{}}": Ask("hold"),
        f"POST {base}leases/{{}}/progress": Ask("hold", {"checkpoint": 1}),
        f"POST {base}leases/{{}}/revoke": Ask("operate", {"reason": "stuck"}),
    }


def _coordinated(place):
    return {
        f"GET {place}/coordinators": Ask("read"),
        f"GET {place}/coordinators/queue": Ask("read"),
        f"DELETE {place}/coordinators": Ask("hold", query={"attempt": "{attempt}"}),
    }


def _places(base):
    return {
        f"POST {base}leases": Ask("act", {"scope": "another"}),
        f"GET {base}leases": Ask("read"),
        f"DELETE {base}leases": Ask("hold", query={"attempt": "{attempt}"}),
        f"GET {base}queue": Ask("read"),
        **_leases(base),
    }


ASKS = {
    **_places("intents/{}/"),
    **_places("spaces/{}/"),
    **_leases(""),
    "GET leases": Ask("read"),
    "POST agents/{}/heartbeat": Ask("self", {}),
    "POST guard/check": Ask("read", {"space": "space:x", "scope": "build", "token": 1}),
    # What each part may do is for the part to say: `test_batches.py`.
    "POST batch": Ask("read", {"requests": [{"method": "GET", "path": "/api/v1/intents/none"}]}),
    # Intents
    "POST intents": Ask("act", {"title": "Report"}),
    "GET intents": Ask("read"),
    "GET intents/{}": Ask("read"),
    "DELETE intents/{}": Ask("act"),
    "POST intents/{}/state": Ask("act", {"state": {"a": 1}}, IF_MATCH),
    "PATCH intents/{}/state": Ask("act", {"state": {"a": 1}}, IF_MATCH),
    "POST intents/{}/status": Ask("act", {"status": "active"}, IF_MATCH),
    **_events("intents/{}"),
    **_events("spaces/{}"),
    **_events("portfolios/{}"),
    **_events("agents/{}"),
    "POST intents/{}/children": Ask("act", {"title": "Part"}),
    **{
        f"GET intents/{{}}/{kind}": Ask("read")
        for kind in ("children", "descendants", "ancestors", "dependencies", "dependents", "ready", "blocked")
    },
    "POST intents/{}/dependencies": Ask("act", {"dependency_id": "{other}"}),
    "DELETE intents/{}/dependencies/{}": Ask("act"),
    # Governance
    "PUT intents/{}/governance": Ask("act", {"write_scope": "any"}),
    "GET intents/{}/governance": Ask("read"),
    "DELETE intents/{}/governance": Ask("act"),
    "POST intents/{}/decisions": Ask("act", {"decision_type": "approval", "outcome": "yes"}),
    "GET intents/{}/decisions": Ask("read"),
    "POST intents/{}/arbitrate": Ask("act", {"reason": "we differ"}),
    # Portfolios
    "POST portfolios": Ask("act", {"name": "Q3"}),
    "GET portfolios": Ask("read"),
    "GET portfolios/{}": Ask("read"),
    "PATCH portfolios/{}/status": Ask("act", {"status": "completed"}),
    "POST portfolios/{}/intents": Ask("act", {"intent_id": "{other}"}),
    "GET portfolios/{}/intents": Ask("read"),
    "DELETE portfolios/{}/intents/{}": Ask("act"),
    "GET intents/{}/portfolios": Ask("read"),
    # Coordinators
    "POST coordinators": Ask("act", {"intent_id": "{other}"}),
    "GET coordinators/{}": Ask("read"),
    "POST coordinators/{}/heartbeat": Ask("hold", {}),
    "PATCH coordinators/{}": Ask("hold", {}),
    "DELETE coordinators/{}": Ask("hold"),
    **_coordinated("intents/{}"),
    **_coordinated("portfolios/{}"),
    # Agents
    "POST agents/register": Ask("self", {"agent_id": "{owner}"}),
    "GET agents": Ask("read"),
    "GET agents/{}/record": Ask("read"),
    "PATCH agents/{}/status": Ask("self", {"status": "draining"}),
    "DELETE agents/{}": Ask("self"),
    "GET agents/{}/assignments": Ask("read"),
    "POST intents/{}/agents": Ask("act", {"agent_id": "zoe"}),
    "GET intents/{}/agents": Ask("read"),
    "DELETE intents/{}/agents/{}": Ask("act"),
    # Streams
    **{f"GET subscribe/{kind}/{{}}": Ask("read") for kind in ("intents", "portfolios", "agents", "spaces")},
    **{f"GET {kind}/{{}}/subscribe": Ask("read") for kind in ("intents", "portfolios", "agents")},
    # The server
    "GET /livez": Ask("open"),
    "GET /readyz": Ask("open"),
    "GET /version": Ask("open"),
    "GET /metrics": Ask("read"),
    "GET /openapi.json": Ask("open"),
    "GET /.well-known/openintent.json": Ask("open"),
    "GET server/config": Ask("read"),
    "GET cluster": Ask("read"),
}


def name_of(route: Route) -> str:
    return f"{route.method} {route.pattern}"


# Requests


class Caller:
    """Sends requests with a key, by one of the lanes: the hot lane takes no chunked bodies."""

    def __init__(self, url, lane, key=None):
        self.lane = lane
        self.key = key
        self.http = Http(url)

    def send(self, method, path, body=None, *, agent=None, headers=None, query=None):
        """The answer, read to its end unless it has none."""
        sent = {"Content-Type": "application/json"} if body is not None else {}
        sent |= {} if agent is None else {"X-Agent-ID": agent}
        sent |= {} if self.key is None else {"X-API-Key": self.key}
        raw = b"" if body is None else json.dumps(body).encode()
        content = iter([raw]) if self.lane == "asgi" else raw
        return self.http.request(method, path, content=content, headers=sent | (headers or {}), params=query)


class Things:
    """Things of one agent, each made when it is asked for, by an operator."""

    def __init__(self, operator: Caller, owner: str) -> None:
        self._operator = operator
        self.owner = owner
        self.number = next(_numbers)
        self.attempt = ""  # that of the lease which was asked for last
        self._leases: dict[str, str] = {}

    def _made(self, path, body, headers=None):
        reply = self._operator.send("POST", API + path, body, agent=self.owner, headers=headers)
        assert reply.status_code == 200, reply.text
        return reply.json()["id"]

    @cached_property
    def intent(self):
        return self._made("/intents", {"title": "Report", "depends_on": [self.other]})

    @cached_property
    def other(self):
        return self._made("/intents", {"title": "Another"})

    @cached_property
    def space(self):
        return f"space-{self.number}"

    @cached_property
    def agent(self):
        self._made("/agents/register", {"agent_id": self.owner})
        return self.owner

    @cached_property
    def portfolio(self):
        found = self._made("/portfolios", {"name": "Q3"})
        self._made(f"/portfolios/{found}/intents", {"intent_id": self.intent})
        return found

    @cached_property
    def assigned(self):
        self._made(f"/intents/{self.intent}/agents", {"agent_id": "zoe"})
        return "zoe"

    def lease(self, place):
        return self._held(place, f"/{place}/leases", {"scope": "build"})

    def coordinator(self, kind, thing):
        return self._held(f"coordinator of {thing}", "/coordinators", {f"{kind}_id": thing})

    def _held(self, what, path, body):
        """A lease, made when it is first asked for, under an attempt of its own."""
        self.attempt = f"{self.number}-{what}"
        if what not in self._leases:
            key = {"Idempotency-Key": self.attempt}
            self._leases[what] = self._made(path, {**body, "ttl_seconds": 600}, key)
        return self._leases[what]

    # Paths

    def path(self, route: Route) -> str:
        """The route's path with things for its names: each is of the kind that the word before it says."""
        if route.pattern.startswith("/"):
            return route.pattern
        done: list[str] = []
        for word in route.pattern.split("/"):
            done.append(self._thing(done) if word == "{}" else word)
        if route.method == "DELETE" and done[-1] == "leases":
            self.lease("/".join(done[:-1]))  # the attempt that is given up
        if route.method == "DELETE" and done[-1] == "coordinators":
            self.coordinator(done[0].removesuffix("s"), done[1])
        return "/".join([API, *done])

    def _thing(self, before: list[str]) -> str:
        kind = before[-1]
        if kind == "leases":
            return self.lease("/".join(before[:-1]) or f"spaces/{self.space}")
        if kind == "agents":
            return self.assigned if len(before) > 1 else self.agent
        return {
            "intents": lambda: self.intent,
            "dependencies": lambda: self.other,
            "portfolios": lambda: self.portfolio,
            "coordinators": lambda: self.coordinator("intent", self.intent),
            "spaces": lambda: self.space,
        }[kind]()

    def filled(self, value):
        """A body or a query with things for what stands in braces."""
        if isinstance(value, dict):
            return {key: self.filled(each) for key, each in value.items()}
        if isinstance(value, str) and value.startswith("{"):
            return getattr(self, value[1:-1])
        return value


def ask(caller: Caller, route: Route, things: Things, agent: str):
    how = ASKS[name_of(route)]
    path = things.path(route)
    return caller.send(
        route.method, path, things.filled(how.body), agent=agent, headers=how.headers, query=things.filled(how.query)
    )


@contextmanager
def connected(url, lane, shown):
    """A caller for each key."""
    made = {kind: Caller(url, lane, key) for kind, key in shown.items()}
    try:
        yield made
    finally:
        for caller in made.values():
            caller.http.close()
