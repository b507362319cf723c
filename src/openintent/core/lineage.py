"""How intents are related: parts of a whole, work that waits for other work; and how one is deleted."""

from collections.abc import Callable, Iterable
from typing import Final

from openintent.core import agents, governance
from openintent.core.answers import (
    Answer,
    Circular,
    Done,
    Intents,
    IntentSeen,
    InUse,
    LimitReached,
    Missing,
    Reply,
    Unknown,
)
from openintent.core.books import Books, checkpoint_key, decision_key
from openintent.core.commands import AddDependency, DeleteIntent, GetRelatives, RemoveDependency
from openintent.core.portfolios import take_out
from openintent.core.shelves import Index, shelve, unshelve
from openintent.core.versions import keep, new_version, version_differs
from openintent.model import DONE_STATUSES, Intent
from openintent.spaces import intent_space, spaces_of_intent

# Looking


def get_relatives(books: Books, command: GetRelatives) -> Reply:
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    return books.reply(Intents([books.intents[each] for each in KINDS[command.kind](books, intent)], more=False))


def _children(books: Books, intent: Intent) -> list[str]:
    return list(books.children.get(intent.id, ()))


def _descendants(books: Books, intent: Intent) -> list[str]:
    return _reached(books.children, intent.id)


def _ancestors(books: Books, intent: Intent) -> list[str]:
    found: list[str] = []
    parent = intent.parent_id
    while parent is not None:
        found.append(parent)
        parent = books.intents[parent].parent_id
    return found


def _dependencies(_: Books, intent: Intent) -> list[str]:
    return intent.depends_on


def _dependents(books: Books, intent: Intent) -> list[str]:
    return list(books.dependents.get(intent.id, ()))


def _ready(books: Books, intent: Intent) -> list[str]:
    """The parts that could be worked on now."""
    return [each for each in _open_children(books, intent) if not waits(books, books.intents[each])]


def _blocked(books: Books, intent: Intent) -> list[str]:
    """The parts that wait for other work."""
    return [each for each in _open_children(books, intent) if waits(books, books.intents[each])]


def _open_children(books: Books, intent: Intent) -> Iterable[str]:
    return (each for each in _children(books, intent) if books.intents[each].status not in DONE_STATUSES)


def waits(books: Books, intent: Intent) -> bool:
    """Whether something that it depends on is not completed."""
    return any(books.intents[other].status != "completed" for other in intent.depends_on)


def _reached(index: Index[None], start: str) -> list[str]:
    """All that can be reached from here, nearest first, without what it starts from."""
    found = list(index.get(start, ()))
    seen = set(found)
    for each in found:
        news = [other for other in index.get(each, ()) if other not in seen]
        seen.update(news)
        found += news
    return found


KINDS: Final[dict[str, Callable[[Books, Intent], list[str]]]] = {
    "children": _children,
    "descendants": _descendants,
    "ancestors": _ancestors,
    "dependencies": _dependencies,
    "dependents": _dependents,
    "ready": _ready,
    "blocked": _blocked,
}

# Dependencies


def add_dependency(books: Books, command: AddDependency) -> Reply:
    """From now on the intent waits for another. That it already does is none the worse."""
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    other = command.dependency_id
    if other in intent.depends_on:
        return books.reply(IntentSeen(intent), after=intent.batch)
    refusal = (
        governance.forbids(books, intent, command.actor)
        or version_differs(intent, command.expect)
        or _unfit(books, intent, other)
    )
    if refusal is not None:
        return books.reply(refusal)
    intent.depends_on = [*intent.depends_on, other]
    shelve(books.dependents, other, intent.id, None)
    return _changed(books, intent, "dependency_added", command.actor, other)


def _unfit(books: Books, intent: Intent, other: str) -> Answer | None:
    if other not in books.intents:
        return Unknown("dependency_id", other)
    if other == intent.id or other in _reached(books.dependents, intent.id):
        return Circular(intent.id, other)
    room = books.limits.depends_on_max
    return LimitReached("dependencies of this intent", room) if len(intent.depends_on) >= room else None


def remove_dependency(books: Books, command: RemoveDependency) -> Reply:
    intent = books.intents.get(command.intent_id)
    if intent is None or command.dependency_id not in intent.depends_on:
        return books.reply(Missing("intent" if intent is None else "dependency"))
    refusal = governance.forbids(books, intent, command.actor) or version_differs(intent, command.expect)
    if refusal is not None:
        return books.reply(refusal)
    intent.depends_on = [other for other in intent.depends_on if other != command.dependency_id]
    unshelve(books.dependents, command.dependency_id, intent.id)
    return _changed(books, intent, "dependency_removed", command.actor, command.dependency_id)


def _changed(books: Books, intent: Intent, kind: str, actor: str, other: str) -> Reply:
    new_version(books, intent)
    keep(books, intent)
    books.log(kind, intent_space(intent.id), actor, payload={"dependency_id": other, "version": intent.version})
    return books.reply(IntentSeen(intent), after=intent.batch)


# Deleting


def delete(books: Books, command: DeleteIntent) -> Reply:
    """Take an intent away, with all that hangs on it. Its log stays until it is forgotten like any other."""
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    refusal = (
        governance.forbids(books, intent, command.actor)
        or version_differs(intent, command.expect)
        or _in_use(books, intent)
    )
    if refusal is not None:
        return books.reply(refusal)
    _let_go(books, intent, command.actor)
    del books.intents[intent.id]
    keep(books, intent)  # which voids its patches
    books.drop(f"i/{intent.id}")
    payload = {"old_status": intent.status, "new_status": "deleted", "reason": None}
    books.log("status_changed", intent_space(intent.id), command.actor, payload=payload)
    return books.reply(Done())


def _in_use(books: Books, intent: Intent) -> InUse | None:
    for name in spaces_of_intent(intent.id):
        space = books.spaces.get(name)
        if space is not None and (space.leases or space.lines):
            return InUse("somebody holds a part of it, or waits for one")
        if space is not None and space.cooldowns:
            return InUse("a part of it stays closed for a while after its last holder")
    if intent.id in books.children:
        return InUse("other intents are part of it")
    return InUse("other intents depend on it") if intent.id in books.dependents else None


def _let_go(books: Books, intent: Intent, actor: str) -> None:
    """Everything that refers to the intent."""
    if intent.parent_id is not None:
        unshelve(books.children, intent.parent_id, intent.id)
    for other in intent.depends_on:
        unshelve(books.dependents, other, intent.id)
    for portfolio_id in list(books.portfolios_of.get(intent.id, ())):
        take_out(books, portfolio_id, intent.id, actor)
    for assignment in list(books.assigned.get(intent.id, {}).values()):
        agents.take_off(books, assignment, actor)
    for index in range(len(books.decisions.pop(intent.id, ()))):
        books.drop(decision_key(intent.id, index))
    books.governed.pop(intent_space(intent.id), None)
    for name in spaces_of_intent(intent.id):
        _forget_checkpoints(books, name)


def _forget_checkpoints(books: Books, name: str) -> None:
    space = books.spaces.get(name)
    if space is not None:
        for scope in space.checkpoints:
            books.drop(checkpoint_key(name, scope))
        space.checkpoints.clear()
        books.tidy(space)
