import asyncio
import threading

import pytest

from openintent.agents import (
    Agent,
    AgentBase,
    Coordinator,
    Retry,
    on_assignment,
    on_complete,
    on_event,
    on_state_change,
)
from openintent.agents.calling import Handlers
from openintent.agents.hooks import accepted, hooks_of
from openintent.agents.work import result_of

pytestmark = pytest.mark.anyio


def names(kind, of):
    return [each.name for each in hooks_of(kind) if each.hook.kind == of]


class Base:
    @on_assignment
    def first(self, intent): ...

    @on_complete
    def told(self, intent): ...

    @on_event("comment")
    @on_event("task.progress")
    def both(self, intent, event): ...


class Derived(Base):
    @on_assignment(scope="x", complete=True, retry=Retry(max_attempts=7))
    def second(self, intent): ...

    def told(self, intent):
        """Without a mark it is a method like any other."""


def test_handlers_are_inherited_those_of_the_base_first():
    assert names(Derived, "assignment") == ["first", "second"]
    assert names(Base, "assignment") == ["first"]


def test_a_handler_that_is_overridden_without_a_mark_is_none_any_more():
    assert names(Base, "complete") == ["told"]
    assert names(Derived, "complete") == []


def test_a_handler_may_have_several_marks():
    about = {each.hook.about for each in hooks_of(Base) if each.hook.kind == "event"}
    assert about == {"comment", "task.progress"}


def test_a_mark_says_what_was_said_to_it():
    (hook,) = [each.hook for each in hooks_of(Derived) if each.name == "second"]
    assert (hook.scope, hook.complete, hook.retry) == ("x", True, Retry(max_attempts=7))


@pytest.mark.parametrize(
    ("keys", "about"),
    [(None, None), ("a", frozenset("a")), (["a", "b"], frozenset("ab")), (iter("ab"), frozenset("ab"))],
)
def test_keys_may_be_one_or_several(keys, about):
    class Watcher:
        @on_state_change(keys)
        def watch(self): ...

    assert [each.hook.about for each in hooks_of(Watcher)] == [about]


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (lambda: ..., ()),
        (lambda a: ..., (1,)),
        (lambda a, b=0, /: ..., (1, 2)),
        (lambda a, *, c=3: ..., (1,)),
        (lambda *all_: ..., (1, 2, 3)),
        (lambda a, b, c, d=4: ..., (1, 2, 3)),
    ],
)
def test_a_handler_is_given_as_much_as_it_takes(handler, told):
    assert accepted(handler, (1, 2, 3)) == told


# Calling


def handlers_of(kind):
    return Handlers(Agent("caller", base_url="http://127.0.0.1:1")(kind)())


async def called(handlers, *offered):
    (hooked,) = handlers.of("assignment")
    return await handlers.call(hooked, *offered)


async def test_an_async_handler_runs_on_the_loop_and_a_plain_one_in_a_thread():
    class Async:
        @on_assignment
        async def handle(self, intent):
            return intent, threading.current_thread()

    class Plain:
        @on_assignment
        def handle(self, intent):
            return intent, threading.current_thread()

    assert await called(handlers_of(Async), 1, 2) == (1, threading.main_thread())
    told, thread = await called(handlers_of(Plain), 1, 2)
    assert told == 1
    assert thread is not threading.main_thread()
    assert thread.daemon  # nobody waits for it when the process ends


async def test_a_plain_handler_may_return_something_to_be_awaited():
    class Wrapped:
        @on_assignment
        def handle(self):
            return asyncio.sleep(0, result="slept")

    assert await called(handlers_of(Wrapped)) == "slept"


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(3), KeyError("x")], ids=repr)
async def test_what_a_plain_handler_raises_is_raised(error):
    class Raising:
        @on_assignment
        def handle(self):
            raise error

    with pytest.raises((type(error), RuntimeError)):  # a coroutine may not raise StopIteration
        await called(handlers_of(Raising))


async def test_one_that_raises_concerns_nobody_else(caplog):
    told = []

    class Two:
        @on_complete
        def first(self):
            raise ValueError("no")

        @on_complete
        async def second(self):
            told.append("second")

    await handlers_of(Two).tell("complete", None)
    assert told == ["second"]
    assert "handler=first" in caplog.text


# Results


@pytest.mark.parametrize("returned", [[], 7, "x", {1: 2}, {("a",): 1}])
def test_a_result_is_a_dict_with_names(returned):
    with pytest.raises(TypeError, match="handle must return a dict"):
        result_of(returned, "handle")


def test_nothing_is_an_empty_result():
    assert result_of(None, "handle") == {}


# Classes


def test_the_decorated_class_is_still_itself():
    @Agent("a")
    class Plain:
        """What it is."""

        def __init__(self, colour):
            super().__init__()
            self.colour = colour

    assert Plain("red").colour == "red"
    assert (Plain.__name__, Plain.__doc__, Plain.__module__) == ("Plain", "What it is.", __name__)
    assert issubclass(Plain, AgentBase)


def test_an_agent_may_be_derived_from_another():
    @Agent("a", role="r")
    class First:
        @on_assignment
        def handle(self): ...

    @Agent("b")
    class Second(First): ...

    assert (First.settings.name, Second.settings.name, Second.settings.role) == ("a", "b", None)
    assert names(Second, "assignment") == ["handle"]


def test_each_instance_has_an_id_of_its_own_and_keeps_it():
    @Agent("fetcher")
    class Fetcher: ...

    one, other = Fetcher(), Fetcher()
    assert one.agent_id == one.agent_id != other.agent_id
    assert one.agent_id.startswith("fetcher~")
    assert Agent("fetcher", instance="pod-1")(Fetcher)().agent_id == "fetcher~pod-1"


@pytest.mark.parametrize("first", ["sync_client", "async_client"])
async def test_both_its_clients_know_the_same_leases_whichever_is_used_first(first):
    worker = Agent("a", base_url="http://127.0.0.1:1")(type("Idle", (), {}))()
    getattr(worker, first)
    assert worker.sync_client._holder is worker.async_client._holder
    await worker.close()


def test_there_is_no_work_outside_a_handler():
    with pytest.raises(RuntimeError, match="no work outside"):
        _ = Agent("a")(type("Idle", (), {}))().work


def test_a_coordinator_leads_something():
    with pytest.raises(ValueError, match="portfolio_id or intent_id"):
        Coordinator("lead")
    with pytest.raises(ValueError, match="name one of them"):
        Coordinator("lead", portfolio_id="p", intent_id="i")
