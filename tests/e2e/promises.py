"""An agent that works on a server until the connection breaks, and knows afterwards what it was promised.

Only what was acknowledged counts as promised. Its last call has no known outcome: the server may or may not have
carried it out, and both are right until the agent repeats it with the same attempt.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic
from typing import Any, NamedTuple

from rawhttp import Answer, Connection

TTLS_S = (30.0, 60.0, 120.0, 240.0)  # far enough apart to tell one from the other after a restart
HELD_MAX = 8
BUSY_MAX = 50
BUSY_S = 0.2
TICK_S = 0.001  # ledger time is in whole milliseconds
SHARED = "shared"  # the space in which all agents want the same scope
HOT = "hot"  # that scope
LOAD = ("acquire", "renew", "renew", "progress", "release", "write", "note")
EVERYTHING = (*LOAD, "plan", "decide", "heartbeat")


class Call(NamedTuple):
    """A request that can be sent a second time and is then still the same request."""

    kind: str
    method: str
    path: str
    body: Any
    key: str
    match: int | None = None
    lease_id: str = ""


class Done(NamedTuple):
    """An acknowledged call, on the clock that all agents share."""

    called: float
    answered: float
    mark: tuple[int, int]
    token: int  # of a grant; else 0


@dataclass
class Held:
    scope: str
    token: int
    promised_s: float  # the largest ttl that was acknowledged
    checkpoint: int | None
    until: float  # it lives at least until then, if the server never ends, or says farewell


@dataclass
class Agent:
    name: str
    connection: Connection
    rng: random.Random
    held: dict[str, Held] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)  # lease id to token
    notes: list[tuple[int, int]] = field(default_factory=list)  # number in the log, and what it says
    version: int = 0  # of its intent; 0: there is none yet
    plans: list[str] = field(default_factory=list)  # the ids of more intents
    decisions: list[str] = field(default_factory=list)
    kinds: Sequence[str] = LOAD
    # The server may outlive its process for the file by a moment, and say that it cannot store anything.
    refused_at_the_end: bool = False
    done: list[Done] = field(default_factory=list)
    doubt: Call | None = None
    _calls: int = 0
    _called: float = 0.0
    _notes_seen: int = 0

    # Working

    async def create(self) -> None:
        """Its intent."""
        body = {"id": self.name, "title": self.name, "state": {"n": 1}}
        await self._make(Call("create", "POST", "/intents", body, self._next_key()))

    async def work(self) -> None:
        """One call after the other, until one gets no answer."""
        while self.doubt is None:
            await self.step()

    async def step(self) -> None:
        await self._make(self._next_call())

    async def want(self, *, wait_s: float) -> None:
        """Ask for the scope that all want, and wait for it."""
        call = self._acquire_of(SHARED, HOT, self._next_key())
        await self._make(call._replace(body={**call.body, "wait_seconds": wait_s}))

    async def give(self) -> None:
        """Release the scope that all want."""
        await self._make(self._release_of(self.hot, self._next_key()))

    async def take(self) -> None:
        """A lease of something that nobody else wants."""
        key = self._next_key()
        await self._make(self._acquire_of(self.name, f"part-{self._calls}", key))

    @property
    def hot(self) -> str:
        """The id of its lease of the scope that all want, if it has one."""
        return next((lease_id for lease_id, held in self.held.items() if held.scope == HOT), "")

    async def settle(self) -> None:
        """Repeat the call whose outcome is not known: now it is."""
        call, self.doubt = self.doubt, None
        if call is not None:
            await self._make(call)
            assert self.doubt is None, "no answer from a server that nobody killed"

    async def _make(self, call: Call) -> None:
        called = self._called = monotonic()
        answer = await self._asked(call)
        if answer.unknown or (self.refused_at_the_end and answer.status == 503):
            self.doubt = call
            return
        token = getattr(self, f"_{call.kind}_answered")(call, answer)
        self.done.append(Done(called, monotonic(), answer.mark, token))

    async def _asked(self, call: Call) -> Answer:
        """On a busy machine the server may be behind, and say so: then nothing happened, and it is asked again."""
        for _ in range(BUSY_MAX):
            answer = await self.connection.call(call.method, call.path, call.body, key=call.key, match=call.match)
            if answer.status != 429:
                break
            await asyncio.sleep(BUSY_S)
        return answer

    def _next_key(self) -> str:
        self._calls += 1
        return f"{self.name}-{self._calls}"

    def _next_call(self) -> Call:
        key = self._next_key()
        kind = self.rng.choice(self.kinds)
        if kind in ("renew", "progress", "release") and not self.held:
            kind = "acquire"
        if kind == "acquire" and len(self.held) >= HELD_MAX:
            kind = "release"
        call: Call = getattr(self, f"_{kind}")(key)
        return call

    def _create_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        self.version = 1
        return 0

    def _acquire(self, key: str) -> Call:
        return self._acquire_of(
            *((SHARED, HOT) if self.rng.random() < 0.3 else (self.name, f"part-{self._calls}")), key
        )

    def _acquire_of(self, space: str, scope: str, key: str) -> Call:
        body = {"scope": scope, "ttl_seconds": self.rng.choice(TTLS_S)}
        return Call("acquire", "POST", f"/spaces/{space}/leases", body, key)

    def _acquire_answered(self, call: Call, answer: Answer) -> int:
        if answer.status == 409:
            mine = any(held.scope == call.body["scope"] for held in self.held.values())
            assert SHARED in call.path, answer
            assert (answer.body["current_holder"] == self.name) == mine, answer
            return 0
        assert answer.ok, answer
        lease = answer.body
        assert lease["id"] not in self.held | self.released, "granted what was granted before"
        until = self._called + lease["ttl_seconds"]
        self.held[lease["id"]] = Held(lease["scope"], lease["token"], lease["ttl_seconds"], lease["checkpoint"], until)
        return int(lease["token"])

    def _renew(self, key: str) -> Call:
        lease_id = self.rng.choice(list(self.held))
        body = {"ttl_seconds": self.rng.choice(TTLS_S)}
        return Call("renew", "PATCH", f"/leases/{lease_id}", body, key, lease_id=lease_id)

    def _renew_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        held = self.held[call.lease_id]
        assert answer.body["token"] == held.token
        assert answer.body["remaining_seconds"] >= call.body["ttl_seconds"]
        held.promised_s = max(held.promised_s, call.body["ttl_seconds"])
        held.until = max(held.until, self._called + call.body["ttl_seconds"])
        return 0

    def _progress(self, key: str) -> Call:
        lease_id = self.rng.choice(list(self.held))
        body = {"checkpoint": self._calls}
        return Call("progress", "POST", f"/leases/{lease_id}/progress", body, key, lease_id=lease_id)

    def _progress_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        self.held[call.lease_id].checkpoint = call.body["checkpoint"]
        return 0

    def _release(self, key: str) -> Call:
        return self._release_of(self.rng.choice(list(self.held)), key)

    def _release_of(self, lease_id: str, key: str) -> Call:
        return Call("release", "DELETE", f"/leases/{lease_id}", None, key, lease_id=lease_id)

    def _release_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        self.released[call.lease_id] = self.held.pop(call.lease_id).token
        return 0

    def _write(self, key: str) -> Call:
        body = {"state": {"n": self.version + 1}}
        return Call("write", "POST", f"/intents/{self.name}/state", body, key, match=self.version)

    def _write_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        assert answer.body["version"] == self.version + 1
        self.version += 1
        return 0

    def _note(self, key: str) -> Call:
        body = {"event_type": "note", "payload": {"n": self._calls}}
        return Call("note", "POST", f"/spaces/{self.name}/events", body, key)

    def _note_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        self.notes.append((answer.body["seq"], call.body["payload"]["n"]))
        return 0

    def _plan(self, key: str) -> Call:
        return Call("plan", "POST", "/intents", {"id": f"{self.name}.{self._calls}", "title": "more"}, key)

    def _plan_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        assert answer.body["id"] == call.body["id"]
        self.plans.append(call.body["id"])
        return 0

    def _decide(self, key: str) -> Call:
        body = {"decision_type": "review", "outcome": "approved", "reasoning": key}
        return Call("decide", "POST", f"/intents/{self.name}/decisions", body, key)

    def _decide_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        self.decisions.append(call.body["reasoning"])
        return 0

    def _heartbeat(self, key: str) -> Call:
        listed = [{"id": lease_id, "token": held.token} for lease_id, held in self.held.items()]
        return Call("heartbeat", "POST", f"/agents/{self.name}/heartbeat", {"leases": listed}, key)

    def _heartbeat_answered(self, call: Call, answer: Answer) -> int:
        assert answer.ok, answer
        verdicts = {lease["id"]: lease["verdict"] for lease in answer.body["leases"]}
        assert verdicts == {lease["id"]: "renewed" for lease in call.body["leases"]}
        return 0

    # Looking back after a restart

    async def check(self, started_at: float, *, farewell: bool = False) -> None:
        """That the server has all it promised, and nothing that was not asked of it.

        A lease has its whole ttl from when the server is ready, or what was left of it, if there was a farewell.
        """
        await self._check_leases(started_at, farewell=farewell)
        await self._check_state()
        await self._check_notes()
        if self.kinds is not LOAD:
            await self._check_plans()
            if self.version:
                await self._check_decisions()

    async def _check_leases(self, started_at: float, *, farewell: bool) -> None:
        listed = await self.connection.call("GET", f"/leases?agent_id={self.name}")
        now = monotonic()
        live = {lease["id"]: lease for lease in listed.body["leases"]}
        assert live.keys() & self.released.keys() == set(), "a release was lost"
        for lease_id, held in self.held.items():
            doubted = self.doubt if self.doubt is not None and self.doubt.lease_id == lease_id else None
            if doubted is not None and doubted.kind == "release" and lease_id not in live:
                continue
            lease = live[lease_id]
            assert lease["token"] == held.token
            # Ready at some time after its start, which is not known.
            until = held.until if farewell else started_at + held.promised_s
            short_s = until - now - lease["remaining_seconds"]
            assert short_s <= TICK_S, f"{short_s} s shorter than promised"
            maybe = doubted.body["checkpoint"] if doubted is not None and doubted.kind == "progress" else None
            assert lease["checkpoint"] in (held.checkpoint, maybe or held.checkpoint)
        extra = [live[lease_id] for lease_id in live.keys() - self.held.keys()]
        assert len(extra) <= self._doubted("acquire")
        assert all(lease["scope"] == self.doubt.body["scope"] for lease in extra)

    async def _check_state(self) -> None:
        answer = await self.connection.call("GET", f"/intents/{self.name}")
        version = 0 if answer.status == 404 else answer.body["version"]
        assert version in (self.version, self.version + (self._doubted("write") or self._doubted("create")))
        assert version == 0 or answer.body["state"] == {"n": version}

    async def _check_notes(self) -> None:
        after = self.notes[self._notes_seen - 1][0] if self._notes_seen else 0
        path = f"/spaces/{self.name}/events?types=note&order=asc&limit=1000&after={after}"
        logged = [(event["seq"], event["payload"]["n"]) for event in (await self.connection.call("GET", path)).body]
        promised = self.notes[self._notes_seen :]
        assert logged[: len(promised)] == promised
        doubtful = [n for _, n in logged[len(promised) :]]
        assert doubtful in ([], [self.doubt.body["payload"]["n"]] if self._doubted("note") else [])
        self._notes_seen = len(self.notes)

    async def _check_plans(self) -> None:
        doubtful = [self.doubt.body["id"]] if self.doubt is not None and self.doubt.kind == "plan" else []
        for plan in [*self.plans, *doubtful]:
            answer = await self.connection.call("GET", f"/intents/{plan}")
            assert answer.ok or (answer.status == 404 and plan in doubtful), answer

    async def _check_decisions(self) -> None:
        listed = (await self.connection.call("GET", f"/intents/{self.name}/decisions")).body["decisions"]
        found = [decision["reasoning"] for decision in listed]
        doubtful = [self.doubt.key] if self.doubt is not None and self.doubt.kind == "decide" else []
        assert found in (self.decisions, self.decisions + doubtful)

    def _doubted(self, kind: str) -> bool:
        return self.doubt is not None and self.doubt.kind == kind


async def events_of(reader: Connection, where: str) -> AsyncIterator[dict[str, Any]]:
    """The whole log of one space, oldest first."""
    after = 0
    while True:
        page = (await reader.call("GET", f"/{where}/events?order=asc&limit=1000&after={after}")).body
        for event in page:
            yield event
        if not page:
            return
        after = page[-1]["seq"]


async def check_log(reader: Connection, agents: list[Agent]) -> int:
    """That the log is whole, has every acknowledged grant and release, and never two holders; returns its length."""
    spaces = [f"spaces/{SHARED}", *(f"spaces/{agent.name}" for agent in agents)]
    spaces += [f"intents/{agent.name}" for agent in agents if agent.version]
    spaces += [f"intents/{plan}" for agent in agents for plan in agent.plans]
    logs = {where: [event async for event in events_of(reader, where)] for where in spaces}
    everything = sorted((event for log in logs.values() for event in log), key=lambda event: event["seq"])
    assert [event["seq"] for event in everything] == list(range(1, len(everything) + 1))

    granted = [event["payload"]["token"] for event in everything if event["event_type"] == "lease_acquired"]
    ended = {event["payload"]["token"] for event in everything if event["event_type"] == "lease_released"}
    assert granted == sorted(set(granted)), "a token came twice, or went back"
    assert {op.token for agent in agents for op in agent.done if op.token} <= set(granted)
    assert {token for agent in agents for token in agent.released.values()} <= ended
    assert {held.token for agent in agents for held in agent.held.values()} & ended == set()

    shared = [event for event in logs[f"spaces/{SHARED}"] if event["event_type"].startswith("lease_")]
    turns = [(event["event_type"], event["payload"]["token"]) for event in shared]
    for (before, token), (after, next_token) in pairwise(turns):
        assert (before, after) in {("lease_acquired", "lease_released"), ("lease_released", "lease_acquired")}
        assert after == "lease_acquired" or token == next_token
    return len(everything)


def check_order(done: Sequence[Done]) -> None:
    """The server's order never contradicts that of the world: what began after another had ended has the later place.

    The same for tokens, and nobody shares a place or a token.
    """
    marks, grants = [op.mark for op in done], [op.token for op in done if op.token]
    assert len(set(marks)) == len(marks)
    assert len(set(grants)) == len(grants)
    by_end = sorted(done, key=lambda op: op.answered)
    ended, newest, token = 0, (0, 0), 0
    for op in sorted(done, key=lambda op: op.called):
        while by_end[ended].answered < op.called:
            newest, token = max(newest, by_end[ended].mark), max(token, by_end[ended].token)
            ended += 1
        assert op.mark > newest
        assert not op.token or op.token > token
