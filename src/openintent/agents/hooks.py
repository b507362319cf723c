"""The decorators for handlers: they mark a function, and the runner calls it when its time has come.

A handler may be `async` or plain; a plain one is called in a thread. It is given as many of the arguments that its
kind offers, in their order, as it takes.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from openintent.retrying import Retry

Handler = TypeVar("Handler", bound=Callable[..., Any])

_MARK: Final = "__openintent_hooks__"


@dataclass(frozen=True, slots=True)
class Hook:
    """One mark on a handler."""

    kind: str
    about: str | frozenset[str] | None = None  # a scope, keys of the state, a type of event
    scope: str | None = None
    complete: bool | None = None
    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class Hooked:
    """A handler of a class, with the mark that it has."""

    hook: Hook
    name: str


def marked(handler: Handler, hook: Hook) -> Handler:
    setattr(handler, _MARK, (*getattr(handler, _MARK, ()), hook))
    return handler


def hooks_of(kind: type) -> tuple[Hooked, ...]:
    """The marked handlers of a class, those of its bases first, in the order in which they were written."""
    names: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        names.update(dict.fromkeys(vars(base)))
    found = ((name, inspect.getattr_static(kind, name, None)) for name in names)
    return tuple(Hooked(hook, name) for name, value in found for hook in getattr(value, _MARK, ()))


def accepted(handler: Callable[..., Any], offered: tuple[Any, ...]) -> tuple[Any, ...]:
    """As many of the offered arguments as the handler takes."""
    parameters = inspect.signature(handler).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return offered
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return offered[: len(places)]


# Work


@overload
def on_assignment(handler: Handler, /) -> Handler: ...


@overload
def on_assignment(
    *, scope: str | None = None, complete: bool | None = None, retry: Retry | None = None
) -> Callable[[Handler], Handler]: ...


def on_assignment(
    handler: Handler | None = None,
    /,
    *,
    scope: str | None = None,
    complete: bool | None = None,
    retry: Retry | None = None,
) -> Handler | Callable[[Handler], Handler]:
    """`(self, intent)`: the agent, or its role, was assigned to an intent. A lease is held while it runs.

    What it returns is written into the state, together with the word that it is done. `scope` is that of the lease,
    `complete` completes the intent with it, and `retry` says what becomes of it when it raises.
    """
    hook = Hook("assignment", scope=scope, complete=complete, retry=retry)
    if handler is not None:
        return marked(handler, hook)
    return lambda function: marked(function, hook)


def on_retry(handler: Handler) -> Handler:
    """`(self, intent, attempt, last_error)`: before an assignment is tried again, by this agent or after another."""
    return marked(handler, Hook("retry"))


def on_handoff(handler: Handler) -> Handler:
    """`(self, intent, from_agent, payload)`: before the work on an assignment that another agent delegated."""
    return marked(handler, Hook("handoff"))


# Leases


def on_lease_available(scope: str) -> Callable[[Handler], Handler]:
    """`(self, intent, scope)`: somebody's lease on the scope has ended, in whichever way, and nobody has it yet.

    It concerns the intents that the agent is assigned to, and those it watches. Several agents may be told of one
    hand-over, each once; the first to take the lease has it.
    """
    return lambda handler: marked(handler, Hook("lease_available", scope))


def on_lease_lost(handler: Handler) -> Handler:
    """`(self, intent, reason)`: the lease of an assignment was lost. Its handler has been cancelled."""
    return marked(handler, Hook("lease_lost"))


def on_preempt(handler: Handler) -> Handler:
    """`(self, intent, lease)`: a higher priority has asked for the lease of an assignment that is being worked on.

    It is called beside the handler, which has `lease.remaining` seconds left: time to save a checkpoint and to end.
    """
    return marked(handler, Hook("preempt"))


# What happens to intents


def on_state_change(keys: Iterable[str] | str | None = None) -> Callable[[Handler], Handler]:
    """`(self, intent, old_state, new_state)`: somebody else changed one of the keys, or without any, any of them."""
    about = None if keys is None else frozenset({keys} if isinstance(keys, str) else keys)
    return lambda handler: marked(handler, Hook("state_change", about))


def on_complete(handler: Handler) -> Handler:
    """`(self, intent)`: an intent was completed."""
    return marked(handler, Hook("complete"))


def on_event(event_type: str) -> Callable[[Handler], Handler]:
    """`(self, intent, event)`: an event of this type was logged."""
    return lambda handler: marked(handler, Hook("event", event_type))


# The agent itself


def on_drain(handler: Handler) -> Handler:
    """`(self)`: it is to stop. What runs may still be finished, and nothing new is taken."""
    return marked(handler, Hook("drain"))


def on_lead(handler: Handler) -> Handler:
    """`(self, lease)`, of a coordinator: it leads now. When the lease is lost, this is cancelled."""
    return marked(handler, Hook("lead"))


def on_all_complete(handler: Handler) -> Handler:
    """`(self, portfolio_id)`, of a coordinator: all intents of its portfolio are completed.

    Whoever begins to lead when they are is told as well: the one before may have died before it was told.
    """
    return marked(handler, Hook("all_complete"))
