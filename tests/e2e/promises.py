"""An agent that works on a server until the connection breaks, and knows afterwards what it was promised.

Only what was acknowledged counts as promised. Its last call has no known outcome: the server may or may not have
carried it out, and both are right until the agent repeats it with the same attempt.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from rawhttp import Answer, Connection

TTLS_S = (30.0, 60.0, 120.0, 240.0)  # far enough apart to tell one from the other after a restart
HELD_MAX = 8
SHARED = "shared"  # the space in which all agents want the same scope


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


@dataclass
class Agent:
    name: str
    connection: Connection
    rng: random.Random
    held: dict[str, Held] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)  # lease id to token
    notes: list[tuple[int, int]] = field(default_factory=list)  # number in the log, and what it says
    version: int = 1
    done: list[Done] = field(default_factory=list)
    doubt: Call | None = None
    _calls: int = 0
    _notes_seen: int = 0

    # Working

    async def create(self) -> None:
        body = {"id": self.name, "title": self.name, "state": {"n": 1}}
        assert (await self.connection.call("POST", "/intents", body)).ok

    async def work(self) -> None:
        """One call after the other, until one gets no answer."""
        while self.doubt is None:
            await self._make(self._next_call())

    async def settle(self) -> None:
        """Repeat the call whose outcome is not known: now it is."""
        call, self.doubt = self.doubt, None
        if call is not None:
            await self._make(call)
            assert self.doubt is None, "no answer from a server that nobody killed"

    async def _make(self, call: Call) -> None:
        called = monotonic()
        answer = await self.connection.call(call.method, call.path, call.body, key=call.key, match=call.match)
        if answer.unknown:
            self.doubt = call
            return
        token = getattr(self, f"_{call.kind}_answered")(call, answer)
        self.done.append(Done(called, monotonic(), answer.mark, token))

    def _next_call(self) -> Call:
        self._calls += 1
        kind = self.rng.choice(["acquire", "renew", "renew", "progress", "release", "write", "note"])
        if kind in ("renew", "progress", "release") and not self.held:
            kind = "acquire"
        if kind == "acquire" and len(self.held) >= HELD_MAX:
            kind = "release"
        call: Call = getattr(self, f"_{kind}")(f"{self.name}-{self._calls}")
        return call

    def _acquire(self, key: str) -> Call:
        space, scope = (SHARED, "hot") if self.rng.random() < 0.3 else (self.name, f"part-{self._calls}")
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
        self.held[lease["id"]] = Held(lease["scope"], lease["token"], lease["ttl_seconds"], lease["checkpoint"])
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
        lease_id = self.rng.choice(list(self.held))
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

    # Looking back after a restart

    async def check(self, started_at: float) -> None:
        """That the server has all it promised, and nothing that was not asked of it."""
        await self._check_leases(started_at)
        await self._check_state()
        await self._check_notes()

    async def _check_leases(self, started_at: float) -> None:
        listed = await self.connection.call("GET", f"/leases?agent_id={self.name}")
        # Ready at some time after its start, and from then on each lease had its whole ttl.
        passed_s = monotonic() - started_at
        live = {lease["id"]: lease for lease in listed.body["leases"]}
        assert live.keys() & self.released.keys() == set(), "a release was lost"
        for lease_id, held in self.held.items():
            doubted = self.doubt if self.doubt is not None and self.doubt.lease_id == lease_id else None
            if doubted is not None and doubted.kind == "release" and lease_id not in live:
                continue
            lease = live[lease_id]
            assert lease["token"] == held.token
            assert lease["remaining_seconds"] >= held.promised_s - passed_s, "shorter than promised"
            maybe = doubted.body["checkpoint"] if doubted is not None and doubted.kind == "progress" else None
            assert lease["checkpoint"] in (held.checkpoint, maybe or held.checkpoint)
        extra = [live[lease_id] for lease_id in live.keys() - self.held.keys()]
        assert len(extra) <= self._doubted("acquire")
        assert all(lease["scope"] == self.doubt.body["scope"] for lease in extra)

    async def _check_state(self) -> None:
        intent = (await self.connection.call("GET", f"/intents/{self.name}")).body
        assert intent["version"] in (self.version, self.version + self._doubted("write"))
        assert intent["state"] == {"n": intent["version"]}

    async def _check_notes(self) -> None:
        after = self.notes[self._notes_seen - 1][0] if self._notes_seen else 0
        path = f"/spaces/{self.name}/events?types=note&order=asc&limit=1000&after={after}"
        logged = [(event["seq"], event["payload"]["n"]) for event in (await self.connection.call("GET", path)).body]
        promised = self.notes[self._notes_seen :]
        assert logged[: len(promised)] == promised
        doubtful = [n for _, n in logged[len(promised) :]]
        assert doubtful in ([], [self.doubt.body["payload"]["n"]] if self._doubted("note") else [])
        self._notes_seen = len(self.notes)

    def _doubted(self, kind: str) -> bool:
        return self.doubt is not None and self.doubt.kind == kind


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
