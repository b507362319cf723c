"""Transcripts: prose and commands, then, below a line of dashes, what the ledger answered.

A block is a paragraph. Its commands run in order, one on each line, as `name key=value ...`; values are JSON where
they can be, and text otherwise. Answers to requests that waited begin with the number of the request.
"""

import json
from typing import Any

from world import World, rows

from openintent.core import answers as a
from openintent.core import commands
from openintent.model import Intent, Lease, Limits

RULE = "----"


def replay(text: str) -> str:
    """The transcript with the answers that the ledger gives today."""
    stage = Stage()
    blocks = [block.split(f"\n{RULE}\n")[0] for block in text.strip().split("\n\n")]
    return "\n\n".join(_replay_block(stage, block) for block in blocks) + "\n"


def _replay_block(stage: "Stage", block: str) -> str:
    lines = [line for line in block.splitlines() if not line.startswith("#")]
    if not lines:
        return block
    said = [answer for line in lines for answer in stage.run(line)]
    return "\n".join([block, RULE, *(said or ["nothing"])])


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    name, *pairs = line.split()
    return name, {key: _value(text) for key, _, text in (pair.partition("=") for pair in pairs)}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class Stage:
    """Runs one command after the other on a world of its own."""

    def __init__(self) -> None:
        self.world = World()
        self._shown = 0

    def run(self, line: str) -> list[str]:
        name, words = parsed(line)
        answer = getattr(self, f"do_{name}")(**words)
        own = [] if answer is None else answer if isinstance(answer, list) else [self.show(answer)]
        return own + [f"{request}: {self.show(later)}" for request, later in self.world.new_answers()]

    # Leases

    def do_acquire(self, holder, scope="x", **words):
        return self.world.acquire(holder, scope, **words)

    def do_renew(self, lease, holder, **words):
        return self.world.renew(lease, holder, **words)

    def do_release(self, lease, holder, **words):
        return self.world.release(lease, holder, **words)

    def do_revoke(self, lease, **words):
        return self.world.revoke(lease, **words)

    def do_progress(self, lease, holder, **words):
        return self.world.progress(lease, holder, **words)

    def do_heartbeat(self, holder, **held):
        return self.world.heartbeat(holder, list(held.items()))

    def do_give_up(self, holder, attempt, **words):
        return self.world.give_up(holder, attempt, **words)

    def do_gone(self, request):
        self.world.gone(request)

    def do_check(self, scope, token, space="space:s"):
        return self.world.do(commands.CheckToken(space=space, scope=scope, token=token))

    def do_get(self, lease, **words):
        return self.world.do(commands.GetLease(lease_id=lease, **words))

    def do_leases(self, **words):
        return self.world.do(commands.ListLeases(**words))

    def do_queue(self, space="space:s", **words):
        return self.world.do(commands.ListQueue(space=space, **words))

    # Intents

    def do_create(self, intent, **words):
        return self.world.create(intent, **words)

    def do_patch(self, intent, steps, **words):
        return self.world.patch(intent, *steps, **words)

    def do_status(self, intent, status, actor="a", **words):
        return self.world.do(commands.SetStatus(intent_id=intent, actor=actor, status=status, **words))

    def do_intent(self, intent):
        return self.world.do(commands.GetIntent(intent))

    def do_intents(self, **words):
        return self.world.do(commands.ListIntents(**words))

    def do_log(self, type, space="space:s", actor="a", payload=None, **words):  # noqa: A002  # as it is called on the wire
        return self.world.do(commands.LogEvent(space=space, actor=actor, type=type, payload=payload or {}, **words))

    # Time and storage

    def do_limits(self, **words):
        """A new world, with these bounds."""
        self.world, self._shown = World(Limits(**words)), 0

    def do_advance(self, ms):
        self.world.now_ms += ms
        self.world.do(commands.Tick())

    def do_commit(self):
        self.world.commit()

    def do_crash(self):
        self.world.crash()
        self._shown = min(self._shown, len(self.world.log))
        return [self._term()]

    def do_stop(self):
        self.world.stop()
        return [self._term()]

    def _term(self):
        return f"term={self.world.books.term} now_ms={self.world.now_ms}"

    def do_events(self):
        """What was logged since the last look."""
        story = self.world.log + self.world.books.events
        fresh, self._shown = story[self._shown :], len(story)
        return [self._event(event) for event in fresh]

    @staticmethod
    def _event(event):
        what = event.payload or {}
        if event.type == "lease_acquired":
            what = {"lease": event.lease_id, "token": event.grant.token}
        elif event.type == "lease_released":
            what = {"lease": event.lease_id, "token": event.lease.token, "reason": event.lease.ended_reason}
        return _line(str(event.seq), type=event.type, actor=event.actor, **what)

    # Answers

    def show(self, answer: a.Answer) -> str:
        show = getattr(self, f"show_{type(answer).__name__}", None)
        if show is not None:
            return show(answer)
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        return _line(_words(type(answer).__name__), **{key: _short(value) for key, value in fields.items()})

    def show_Granted(self, answer: a.Granted) -> str:  # noqa: N802  # the name of the answer
        lease = answer.lease
        assert answer.remaining_ms == lease.deadline_ms - self.world.now_ms
        more = {"waited_ms": answer.waited_ms or None, "checkpoint": lease.checkpoint}
        return _line("granted", lease=lease.id, token=lease.token, deadline_ms=lease.deadline_ms, **more)

    def show_Seen(self, answer: a.Seen) -> str:  # noqa: N802
        lease, status = answer.lease, answer.lease.status
        return _line(
            status, lease=lease.id, token=lease.token, deadline_ms=lease.deadline_ms if answer.remaining_ms else None
        )

    def show_Held(self, answer: a.Held) -> str:  # noqa: N802
        return self._why(answer)

    def show_WaitOver(self, answer: a.WaitOver) -> str:  # noqa: N802
        why = "nothing" if answer.why is None else self._why(answer.why)
        return _line("wait_over", place=answer.place, waited_ms=answer.waited_ms) + f" because {why}"

    def _why(self, why: a.Held | a.Cooling | a.Overtaking) -> str:
        if not isinstance(why, a.Held):
            return self.show(why)
        lease, who = why.lease, "you" if why.yours else why.lease.holder
        return _line("held", by=who, scope=lease.scope, remaining_ms=why.remaining_ms, queue_length=why.queue_length)

    def show_Lost(self, answer: a.Lost) -> str:  # noqa: N802
        return _line("lost", reason=answer.lease.ended_reason)

    def show_Verdicts(self, answer: a.Verdicts) -> str:  # noqa: N802
        shown = [f"{lease}:{reason or remaining_ms}" for lease, remaining_ms, reason in rows(answer)]
        for place, reason in answer.asked.items():
            shown[place] += f"(asked for by {reason})"
        return " ".join(["verdicts", *shown, f"next_ms={answer.next_ms}"])

    def show_Queue(self, answer: a.Queue) -> str:  # noqa: N802
        places = [
            f"{place}:{waiter.ask.holder}{'' if waiter.request else '(absent)'}" for place, waiter in answer.places
        ]
        return " ".join(["queue", *places])

    def show_IntentSeen(self, answer: a.IntentSeen) -> str:  # noqa: N802
        intent = answer.intent
        return _line("intent", id=intent.id, status=intent.status, version=intent.version, state=intent.state)

    def show_Logged(self, answer: a.Logged) -> str:  # noqa: N802
        return _line("logged", seq=answer.event.seq)


def _line(name: str, **fields: Any) -> str:
    return " ".join([name, *(f"{key}={_text(value)}" for key, value in fields.items() if value is not None)])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value.id if isinstance(value, Lease | Intent) else value


def _words(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
