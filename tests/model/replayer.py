"""Does with the real ledger, and with what clients really believe, what a run of the model did.

A step is a line that the model printed: what was done, a colon, what came of it. The replayer does the same and says
in the same words what came of it here.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from world import SPACE, World

from openintent.client.hold import Hold
from openintent.client.replies import Seen
from openintent.core import answers, commands
from openintent.model import Lease
from openintent.trust import Trust
from openintent.wire import LeaseView

TICK_MS = 1_000
SCOPE = "x"


@dataclass
class Sent:
    """A request on its way."""

    attempt: int
    at_s: float
    ttl_ms: int = 0


@dataclass
class Promise:
    """A reply that promises time. It leaves after a batch."""

    attempt: int
    after: int
    view: LeaseView
    trust: Trust
    left: bool = False


@dataclass
class Client:
    name: str
    attempt: int = 0
    asking: bool = False
    hold: Hold | None = None
    ask: Sent | None = None
    say: Sent | None = None
    reply: Promise | None = None
    leases: dict[int, str] = field(default_factory=dict)  # ids, by attempt

    @property
    def believes(self) -> bool:
        return self.hold is not None and not self.hold.over


class Replayer:
    def __init__(self, *, attempts: int, ttl: int) -> None:
        self._attempts = attempts
        self._ttl_ms = ttl * TICK_MS
        self._world = World()
        self._boot_ms = 0  # the clients' clock, which also runs while the server's time stands
        self._clients = [Client("agent-0"), Client("agent-1")]
        self._write_token = 0

    def step(self, line: str) -> tuple[str, str]:
        """What the model says came of this step, and what came of it here."""
        done, _, expected = line.partition(":")
        verb, *words = done.split()
        values = {key: int(value) for key, value in (word.split("=") for word in words)}
        outcome = getattr(self, f"_{verb}")(**self._meant(values))
        return expected.strip(), outcome or ""

    def _meant(self, values: dict[str, int]) -> dict[str, Any]:
        """A token in a line is the model's; ours is in what was sent."""
        meant: dict[str, Any] = {key: value for key, value in values.items() if key not in {"token", "client"}}
        if "client" in values:
            meant["client"] = self._clients[values["client"]]
        return meant

    def believers(self) -> int:
        return sum(client.believes for client in self._clients)

    def _now_s(self) -> float:
        return self._boot_ms / 1_000

    # The grantor

    def _acquire(self, client: Client, attempt: int) -> str:
        assert client.ask is not None
        answer = self._world.acquire(client.name, SCOPE, ttl_ms=self._ttl_ms, attempt=f"attempt-{attempt}")
        if isinstance(answer, answers.Granted):
            client.leases[attempt] = answer.lease.id
            return f"granted token={answer.lease.token} {self._promise(client, client.ask, answer)}"
        return "held" if isinstance(answer, answers.Held) else self._lost(answer)

    def _renew(self, client: Client, attempt: int, ttl: int) -> str:
        assert client.say is not None
        answer = self._world.renew(client.leases[attempt], client.name, ttl_ms=ttl * TICK_MS)
        if isinstance(answer, answers.Seen):
            return f"renewed {self._promise(client, client.say, answer)}"
        return self._lost(answer)

    def _release(self, client: Client, attempt: int) -> str:
        answer = self._world.release(client.leases[attempt], client.name)
        return "released" if isinstance(answer, answers.Released) else self._lost(answer)

    def _lost(self, answer: answers.Answer) -> str:
        assert isinstance(answer, answers.Lost | answers.Ended), answer
        return "lost"

    def _promise(self, client: Client, sent: Sent, answer: answers.Granted | answers.Seen) -> str:
        reply = self._world.last
        assert reply is not None
        trust = Trust(sent_at=sent.at_s, waited_s=0.0, remaining_s=answer.remaining_ms / 1_000)
        client.reply = Promise(sent.attempt, reply.after, _view(answer.lease, answer.remaining_ms), trust)
        client.reply.left = reply.after <= self._world.durable
        return f"left={answer.remaining_ms // TICK_MS} {'leaves' if client.reply.left else 'waits'}"

    def _write(self) -> str:
        checked = self._world.do(commands.CheckToken(space=SPACE, scope=SCOPE, token=self._write_token))
        assert isinstance(checked, answers.TokenChecked)
        return "accepted" if checked.valid else "refused"

    def _commit(self) -> None:
        self._world.commit()
        for client in self._clients:
            if client.reply is not None and client.reply.after <= self._world.durable:
                client.reply.left = True

    def _crash(self) -> None:
        for client in self._clients:
            if client.reply is not None and not client.reply.left:
                client.reply = None

    def _restart(self) -> str:
        self._world.crash()
        live = list(self._world.books.leases.values())
        assert len(live) <= 1
        if not live:
            return "lease=0 left=0"
        number = 1 + int(live[0].holder[-1]) * self._attempts + int(str(live[0].attempt)[-1])
        return f"lease={number} left={self._world.books.remaining_ms(live[0]) // TICK_MS}"

    # Time

    def _tick(self) -> str:
        held = len(self._world.books.leases)
        self._world.advance(TICK_MS)
        lapsed = len(self._world.books.leases) < held
        return f"{'lapsed ' if lapsed else ''}{self._tick_unnoticed()}"

    def _tick_unnoticed(self) -> str:
        self._boot_ms += TICK_MS
        return "believed=" + ",".join(str(int(client.believes)) for client in self._clients)

    # Clients

    def _send_acquire(self, client: Client, attempt: int) -> None:
        client.asking = True
        client.ask = Sent(attempt, self._now_s())

    def _send_renew(self, client: Client, ttl: int) -> str:
        client.say = Sent(client.attempt, self._now_s(), ttl * TICK_MS)
        return "" if client.believes else "not held"

    def _send_release(self, client: Client) -> str:
        if not client.believes:
            return "not held"
        assert client.hold is not None
        client.hold.release()
        client.say = Sent(client.attempt, self._now_s())
        return ""

    def _send_write(self, client: Client) -> str:
        if not client.believes:
            return "not held"
        assert client.hold is not None
        self._write_token = client.hold.token
        return ""

    def _receive(self, client: Client) -> str:
        reply = client.reply
        if reply is None or not reply.left or reply.attempt != client.attempt:
            return "ignored"
        if client.hold is not None:
            believed = client.hold.confirm(reply.trust)
        else:
            hold = Hold(Seen(reply.view, reply.trust), clock=self._now_s)
            believed = client.asking and not hold.over
            client.hold = hold if believed else None  # one that came too late was never held: it asks again
        return f"believed token={reply.view.token}" if believed else "ignored"

    def _give_up(self, client: Client) -> None:
        client.asking = False

    def _next_attempt(self, client: Client) -> str:
        over = "" if not client.believes else "still held"
        client.attempt += 1
        client.asking, client.hold = False, None
        return over

    # What is lost

    def _lose_acquire(self, client: Client) -> None:
        client.ask = None

    def _lose_say(self, client: Client) -> None:
        client.say = None

    def _lose_reply(self, client: Client) -> None:
        client.reply = None

    def _lose_write(self) -> None:
        self._write_token = 0


def _view(lease: Lease, remaining_ms: int) -> LeaseView:
    """The lease as a client reads it. Dates are only shown, so they need not be true."""
    return LeaseView(
        id=lease.id,
        intent_id=None,
        space=lease.space,
        agent_id=lease.holder,
        scope=lease.scope,
        mode="exclusive",
        status=lease.status,
        token=lease.token,
        ttl_seconds=lease.ttl_ms / 1_000,
        remaining_seconds=remaining_ms / 1_000,
        expires_at="",
        acquired_at="",
        created_at="",
    )


def kind(step: str) -> str:
    """A step without its numbers, to count what happened."""
    return re.sub(r"\s*\w+=[\d,]+", "", step)
