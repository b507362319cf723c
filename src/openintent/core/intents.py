"""Intents: shared work with a versioned state. A patch is applied whole or not at all."""

from itertools import islice

from openintent.core import attempts, governance
from openintent.core.answers import (
    Answer,
    AttemptReused,
    BadPatch,
    Done,
    Exists,
    Held,
    Intents,
    IntentSeen,
    LimitReached,
    Logged,
    Missing,
    Reply,
    TooLarge,
    Unknown,
)
from openintent.core.books import Books
from openintent.core.commands import CreateIntent, Forget, GetIntent, ListIntents, LogEvent, PatchState, SetStatus
from openintent.core.looking import missing_owner, stale
from openintent.core.scopes import BELOW
from openintent.core.shelves import shelve
from openintent.core.values import BadStep, Draft, TooDeep, fingerprint, touched, weigh
from openintent.core.versions import keep, keep_change, new_version, version_differs
from openintent.model import Attempt, Event, Horizon, Intent, Patch
from openintent.spaces import intent_space


def create(books: Books, command: CreateIntent) -> Reply:
    intent, actor = command.intent, command.actor
    intent.print = _print(command)
    known = attempts.find(books, actor, command.attempt)
    if known is not None:
        return _repeat(books, known, intent.print)
    existing = books.intents.get(intent.id)
    if existing is not None:
        same = command.chosen_id and existing.print == intent.print
        return books.reply(IntentSeen(existing) if same else Exists(intent.id), after=existing.batch)
    refusal = _no_room(books, command)
    if refusal is not None:
        return books.reply(refusal)
    intent.created_by = intent.created_by or actor
    intent.depends_on = list(dict.fromkeys(intent.depends_on))
    intent.created_at_ms = intent.updated_at_ms = books.date_ms
    place(books, intent)
    keep(books, intent)
    event = books.log("intent_created", intent_space(intent.id), actor, payload={"title": intent.title})
    intent.created_seq = event.seq
    _remember(books, actor, command.attempt, intent.print, _which(intent))
    return books.reply(IntentSeen(intent), after=intent.batch)


def place(books: Books, intent: Intent) -> None:
    """Put an intent on the shelves, beside those that it is related to."""
    books.intents[intent.id] = intent
    if intent.parent_id is not None:
        shelve(books.children, intent.parent_id, intent.id, None)
    for other in intent.depends_on:
        shelve(books.dependents, other, intent.id, None)
    if intent.governance_policy:
        books.governed[intent_space(intent.id)] = intent


def _print(command: CreateIntent) -> bytes:
    """Of what the request said: an id that was made up for it is not part of that."""
    intent, unsaid = command.intent, {"created_seq"} if command.chosen_id else {"created_seq", "id"}
    said = {name: getattr(intent, name) for name in intent.__struct_fields__ if name not in unsaid}
    return fingerprint("intent", said)


def _no_room(books: Books, command: CreateIntent) -> Answer | None:
    limits = books.limits
    if len(books.intents) >= limits.intents_max:
        return LimitReached("intents", limits.intents_max)
    refusal = attempts.none_left(books, command.attempt) or _unknown_relative(books, command.intent)
    if refusal is not None:
        return refusal
    command.intent.state_bytes = weigh(command.intent.state)
    if command.intent.state_bytes > limits.state_bytes_max:
        return TooLarge("state", limits.state_bytes_max)
    return None


def _unknown_relative(books: Books, intent: Intent) -> Unknown | None:
    if intent.parent_id is not None and intent.parent_id not in books.intents:
        return Unknown("parent_intent_id", intent.parent_id)
    strange = next((other for other in intent.depends_on if other not in books.intents), None)
    return None if strange is None else Unknown("depends_on", strange)


def get(books: Books, command: GetIntent) -> Reply:
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    return books.reply(IntentSeen(intent), after=intent.batch)


def list_all(books: Books, command: ListIntents) -> Reply:
    """In the order of their creation."""
    wanted = (intent for intent in books.intents.values() if command.status in (None, intent.status))
    page = list(islice(wanted, command.offset, command.offset + command.limit + 1))
    return books.reply(Intents(page[: command.limit], more=len(page) > command.limit))


def patch_state(books: Books, command: PatchState) -> Reply:
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    print_ = fingerprint("state", command.intent_id, command.steps)
    known = attempts.find(books, command.actor, command.attempt)
    if known is not None:
        return _repeat(books, known, print_)
    refusal = (
        governance.forbids(books, intent, command.actor)
        or stale(books, intent, holder=command.actor, token=command.token)
        or _held_by_another(books, command)
        or version_differs(intent, command.expect)
        or attempts.none_left(books, command.attempt)
        or _change_state(books, intent, command.steps)
    )
    if refusal is not None:
        return books.reply(refusal)
    _remember(books, command.actor, command.attempt, print_, _which(intent))
    payload = {"version": intent.version, "patches": [_shown(step) for step in command.steps]}
    books.log("state_patched", intent_space(intent.id), command.actor, payload=payload)
    return books.reply(IntentSeen(intent), after=intent.batch)


def _held_by_another(books: Books, command: PatchState) -> Held | None:
    """Nobody writes under another agent's lease, whatever token it has."""
    space = books.spaces.get(intent_space(command.intent_id))
    if space is not None:
        for step in command.steps:
            path = "/".join(touched(books.intents[command.intent_id].state, step)) + BELOW
            # A path may be written with a slash before it, and so may the scope of a lease on it.
            held = space.leases.other(path, command.actor) or space.leases.other(f"/{path}", command.actor)
            if held is not None:
                return Held(held, books.remaining_ms(held), 0)
    return None


def _change_state(books: Books, intent: Intent, steps: list[Patch]) -> Answer | None:
    draft = Draft(intent.state, intent.state_bytes)
    for index, step in enumerate(steps):
        try:
            draft.apply(step)
        except (BadStep, TooDeep) as broken:
            return BadPatch(index, str(broken))
    if draft.size > books.limits.state_bytes_max:
        return TooLarge("state", books.limits.state_bytes_max)
    intent.state, intent.state_bytes = draft.root, draft.size
    new_version(books, intent)
    keep_change(books, intent, steps)
    return None


def set_status(books: Books, command: SetStatus) -> Reply:
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    print_ = fingerprint("status", command.intent_id, command.status, command.reason)
    known = attempts.find(books, command.actor, command.attempt)
    if known is not None:
        return _repeat(books, known, print_)
    refusal = (
        governance.forbids(books, intent, command.actor)
        or stale(books, intent, holder=command.actor, token=command.token)
        or governance.forbids_status(books, intent, command.status, command.reason)
        or version_differs(intent, command.expect)
        or attempts.none_left(books, command.attempt)
    )
    if refusal is not None:
        return books.reply(refusal)
    payload = {"old_status": intent.status, "new_status": command.status, "reason": command.reason}
    intent.status = command.status
    new_version(books, intent)
    keep(books, intent)
    _remember(books, command.actor, command.attempt, print_, _which(intent))
    books.log("status_changed", intent_space(intent.id), command.actor, payload=payload)
    return books.reply(IntentSeen(intent), after=intent.batch)


def log_event(books: Books, command: LogEvent) -> Reply:
    missing = missing_owner(books, command.space)
    if missing is not None:
        return books.reply(missing)
    print_ = fingerprint("event", command.space, command.type, command.payload)
    known = attempts.find(books, command.actor, command.attempt)
    if known is not None:
        return books.reply(_logged(command, known) if known.print == print_ else AttemptReused(known.key))
    refusal = attempts.none_left(books, command.attempt)
    if refusal is not None:
        return books.reply(refusal)
    event = books.log(command.type, command.space, command.actor, payload=command.payload)
    _remember(books, command.actor, command.attempt, print_, f"{event.seq} {event.at_ms}")
    return books.reply(Logged(event))


def _logged(command: LogEvent, known: Attempt) -> Logged:
    """The event that this attempt logged before. All but its number and its date is said anew by the repeat."""
    seq, _, at_ms = known.target.partition(" ")
    return Logged(Event(int(seq), command.type, command.space, command.actor, int(at_ms), command.payload))


def forget_events(books: Books, command: Forget) -> Reply:
    """Old parts of the log go. That they may be missing is written down before, or together with, the first of them."""
    if command.horizon > books.horizon:
        books.horizon = command.horizon
        books.keep("h/", Horizon(books.horizon))
    for key in command.keys:
        books.drop(key)
    return books.reply(Done())


def _remember(books: Books, actor: str, key: str | None, print_: bytes, target: str) -> None:
    attempts.settle(books, actor, key, kind="intent", print_=print_, target=target)


def _which(intent: Intent) -> str:
    """Not only by its id: it may be deleted, and another one made under that."""
    return f"{intent.id} {intent.created_seq}"


def _repeat(books: Books, known: Attempt, print_: bytes) -> Reply:
    id_, _, seq = known.target.partition(" ")
    intent = books.intents.get(id_)
    if known.print != print_ or intent is None or intent.created_seq != int(seq or 0):
        return books.reply(AttemptReused(known.key))
    return books.reply(IntentSeen(intent), after=intent.batch)


def _shown(step: Patch) -> dict[str, object]:
    path = "/".join(segment.replace("~", "~0").replace("/", "~1") for segment in step.path)
    return {"op": step.op, "path": path, "value": step.value}
