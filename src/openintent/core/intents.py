"""Intents: shared work with a versioned state. A patch is applied whole or not at all."""

from itertools import islice
from typing import Final

from openintent.core import attempts
from openintent.core.answers import (
    Answer,
    AttemptReused,
    BadPatch,
    Conflict,
    Exists,
    Held,
    Intents,
    IntentSeen,
    LimitReached,
    Logged,
    Missing,
    Repeated,
    Reply,
    Stale,
    TooLarge,
)
from openintent.core.books import Books, patch_key
from openintent.core.commands import CreateIntent, GetIntent, ListIntents, LogEvent, PatchState, SetStatus
from openintent.core.leases import live_lease_with, missing_intent
from openintent.core.scopes import BELOW
from openintent.core.values import BadStep, Draft, TooDeep, fingerprint, weigh
from openintent.model import Attempt, Intent, Patch, PatchRecord, intent_space

# A state up to this size is written whole at each change: one small record that replaces itself. A larger one is
# kept as patches behind a whole record, so that the journal holds changes and not megabytes.
WHOLE_BYTES_MAX: Final = 4_096
PATCHES_MAX: Final = 64


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
    intent.created_at_ms = intent.updated_at_ms = books.date_ms
    books.intents[intent.id] = intent
    _keep(books, intent)
    _remember(books, actor, command.attempt, intent.print, intent.id)
    books.log("intent_created", intent_space(intent.id), actor, payload={"title": intent.title})
    return books.reply(IntentSeen(intent), after=intent.batch)


def _print(command: CreateIntent) -> bytes:
    """Of what the request said: an id that was made up for it is not part of that."""
    intent = command.intent
    said = {name: getattr(intent, name) for name in intent.__struct_fields__ if command.chosen_id or name != "id"}
    return fingerprint("intent", said)


def _no_room(books: Books, command: CreateIntent) -> Answer | None:
    limits = books.limits
    if len(books.intents) >= limits.intents_max:
        return LimitReached("intents", limits.intents_max)
    if (refusal := _no_attempt_left(books, command.attempt)) is not None:
        return refusal
    command.intent.state_bytes = weigh(command.intent.state)
    if command.intent.state_bytes > limits.state_bytes_max:
        return TooLarge("state", limits.state_bytes_max)
    return None


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
        _may_not_write(books, command)
        or _version_differs(intent, command.expect)
        or _no_attempt_left(books, command.attempt)
        or _change_state(books, intent, command.steps)
    )
    if refusal is not None:
        return books.reply(refusal)
    _remember(books, command.actor, command.attempt, print_, intent.id)
    payload = {"version": intent.version, "patches": [_shown(step) for step in command.steps]}
    books.log("state_patched", intent_space(intent.id), command.actor, payload=payload)
    return books.reply(IntentSeen(intent), after=intent.batch)


def _may_not_write(books: Books, command: PatchState) -> Answer | None:
    """The lease rules: a token that is named must be live, and nobody writes under another agent's lease."""
    space = books.spaces.get(intent_space(command.intent_id))
    if command.token is not None:
        own = live_lease_with(space, holder=command.actor, token=command.token)
        if own is None:
            return Stale(command.token, _successor_of(books, command))
    if space is not None:
        for step in command.steps:
            held = space.leases.other("/".join(step.path) + BELOW, command.actor)
            if held is not None:
                return Held(held, books.remaining_ms(held), 0)
    return None


def _successor_of(books: Books, command: PatchState) -> int | None:
    """The live token of the scope that the stale one was for, as far as that is still known."""
    space_name = intent_space(command.intent_id)
    space = books.spaces.get(space_name)
    for lease in reversed(books.ended.values()):
        if lease.token == command.token and lease.space == space_name:
            live = None if space is None else space.leases.get(lease.scope)
            return None if live is None else live.token
    return None


def _version_differs(intent: Intent, expect: int | None) -> Conflict | None:
    return None if expect in (None, intent.version) else Conflict(intent.version)


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
    _new_version(books, intent)
    _keep_change(books, intent, steps)
    return None


def set_status(books: Books, command: SetStatus) -> Reply:
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    print_ = fingerprint("status", command.intent_id, command.status, command.reason)
    known = attempts.find(books, command.actor, command.attempt)
    if known is not None:
        return _repeat(books, known, print_)
    refusal = _version_differs(intent, command.expect) or _no_attempt_left(books, command.attempt)
    if refusal is not None:
        return books.reply(refusal, after=intent.batch)
    payload = {"old_status": intent.status, "new_status": command.status, "reason": command.reason}
    intent.status = command.status
    _new_version(books, intent)
    _keep(books, intent)
    _remember(books, command.actor, command.attempt, print_, intent.id)
    books.log("status_changed", intent_space(intent.id), command.actor, payload=payload)
    return books.reply(IntentSeen(intent), after=intent.batch)


def log_event(books: Books, command: LogEvent) -> Reply:
    if missing_intent(books, command.space):
        return books.reply(Missing("intent"))
    print_ = fingerprint("event", command.space, command.type, command.payload)
    known = attempts.find(books, command.actor, command.attempt)
    if known is not None:
        same = known.print == print_
        return books.reply(Repeated(command.space, int(known.target)) if same else AttemptReused(known.key))
    refusal = _no_attempt_left(books, command.attempt)
    if refusal is not None:
        return books.reply(refusal)
    event = books.log(command.type, command.space, command.actor, payload=command.payload)
    _remember(books, command.actor, command.attempt, print_, str(event.seq))
    return books.reply(Logged(event))


# Keeping


def _new_version(books: Books, intent: Intent) -> None:
    intent.version += 1
    intent.updated_at_ms = books.date_ms


def _keep(books: Books, intent: Intent) -> None:
    """Write the whole intent, and with that make its patch records void."""
    intent.batch = books.batch
    books.keep(f"i/{intent.id}", intent)
    if intent.patches:
        books.wipe(patch_key(intent.id, 0), patch_key(intent.id, intent.version + 1))
        for version in range(intent.version - intent.patches, intent.version + 1):
            books.changes.pop(patch_key(intent.id, version), None)
        intent.patches = 0


def _keep_change(books: Books, intent: Intent, steps: list[Patch]) -> None:
    if intent.state_bytes <= WHOLE_BYTES_MAX or intent.patches >= PATCHES_MAX:
        _keep(books, intent)
        return
    intent.patches += 1
    intent.batch = books.batch
    books.keep(patch_key(intent.id, intent.version), PatchRecord(intent.version, intent.updated_at_ms, steps))


def _remember(books: Books, actor: str, key: str | None, print_: bytes, target: str) -> None:
    attempts.remember(books, actor, key, kind="intent", print_=print_, target=target)
    attempts.expire(books, actor, key)


def _no_attempt_left(books: Books, key: str | None) -> LimitReached | None:
    return LimitReached("attempts", books.limits.attempts_max) if attempts.full(books, key) else None


def _repeat(books: Books, known: Attempt, print_: bytes) -> Reply:
    intent = books.intents.get(known.target)
    if known.print != print_ or intent is None:
        return books.reply(AttemptReused(known.key))
    return books.reply(IntentSeen(intent), after=intent.batch)


def _shown(step: Patch) -> dict[str, object]:
    path = "/".join(segment.replace("~", "~0").replace("/", "~1") for segment in step.path)
    return {"op": step.op, "path": path, "value": step.value}
