"""Ctrl-C, or what a handler of signals raises, at each moment at which Python lets a handler run.

Those are the beginning of a function of Python's and the end of one of C's, which is what a profiler is told of. So
the same few lines are interrupted at the first of them, at the second, and so on, until they come to their end.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

import msgspec
import pytest
from samples import AGENT, seen_now

from openintent import Lease, OpenIntentClient
from openintent.client import holder
from openintent.client.blocks import LeaseBlock
from openintent.client.calls import Call
from openintent.client.holder import _working_under
from openintent.client.http.idle import Idle
from openintent.client.replies import Reply
from openintent.clock import boot_s

PLACES = ("/openintent/client/", "/threading.py")
# Between the end of the body and the first line of this, nobody can do anything about it.
OUT_OF_REACH: CodeType = LeaseBlock.__exit__.__code__
MOMENTS_MAX = 5_000


class Interrupt(BaseException):
    pass


class Interrupter:
    """Calls a handler at one moment of this thread."""

    def __init__(self, moment: int, handler: Callable[[], object]) -> None:
        self.left = moment
        self._handler = handler

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_return") or not any(place in frame.f_code.co_filename for place in PLACES):
            return
        if event == "call" and frame.f_code is OUT_OF_REACH:
            return
        self.left -= 1
        if self.left == 0:
            sys.setprofile(None)
            self._handler()


class Granting:
    """A transport to a server that grants everything."""

    def __init__(self) -> None:
        self.live: dict[str, str] = {}  # the attempts by their leases
        self._granted = 0

    def exchange(self, call: Call) -> Reply:
        if call.method == "POST":
            body = self._grant(call.headers["Idempotency-Key"])
        else:
            name = call.path.rpartition("attempt=" if "attempt=" in call.path else "/")[2]
            self.live = {lease: by for lease, by in self.live.items() if name not in (lease, by)}
            body = {"id": name, "status": "released"}
        return Reply(200, msgspec.json.encode(body), boot_s())

    def _grant(self, attempt: str) -> dict[str, Any]:
        self._granted += 1
        lease_id = f"L{self._granted}"
        self.live[lease_id] = attempt
        return msgspec.to_builtins(seen_now(lease_id=lease_id).view)

    def close(self) -> None:
        pass


def handled(do: Callable[[], object], handler: Callable[[], object], moment: int) -> bool:
    """Whether it came to that moment."""
    interrupter = Interrupter(moment, handler)
    try:
        sys.setprofile(interrupter)
        do()
    finally:
        sys.setprofile(None)
    return not interrupter.left


def interrupted(do: Callable[[], object], moment: int) -> bool:
    with suppress(Interrupt):
        return handled(do, give_in, moment)
    return True


def give_in() -> None:
    raise Interrupt


def free(lock: Any) -> bool:
    """For other threads."""
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(lock.acquire(timeout=1.0) and not lock.release()))
    thread.start()
    thread.join()
    return got == [True]


def moments() -> Iterator[tuple[OpenIntentClient, Granting, int]]:
    for moment in range(1, MOMENTS_MAX):
        transport = Granting()
        with OpenIntentClient(agent_id=AGENT) as client:
            client._transport = transport
            use(client)  # then the keeper has its thread: to start one is not made for interrupts
            yield client, transport, moment
    raise AssertionError("it never came to its end")


def nothing_is_left(client: OpenIntentClient, transport: Granting) -> bool:
    keeper = client._holder.keeper
    kept = {*keeper._holds, *client._holder._kept, *_working_under.get(), *transport.live}
    return not kept and free(keeper._lock) and free(client._holder._lock)


def use(client: OpenIntentClient) -> None:
    with client.lease("i1", "deploy"):
        pass


def nest(client: OpenIntentClient) -> None:
    with client.lease("i1", "deploy"), client.lease("i1", "deploy", reentrant=True):
        pass


def work_hard(client: OpenIntentClient) -> None:
    with client.lease("i1", "deploy", on_lost=print) as lease:
        lease.check()
        assert lease.remaining


@pytest.mark.parametrize("work", [use, nest, work_hard])
def test_a_block_that_is_interrupted_anywhere_leaves_nothing_behind(work):
    for client, transport, moment in moments():
        came = interrupted(lambda: work(client), moment)  # noqa: B023  # it is called at once
        assert nothing_is_left(client, transport), moment
        if not came:
            return


def test_a_reentrant_block_that_is_interrupted_anywhere_leaves_the_outer_one_alone():
    for client, transport, moment in moments():
        with client.lease("i1", "deploy") as outer:
            came = interrupted(lambda: _enter_again(client), moment)  # noqa: B023
            outer.check()
            assert list(client._holder.keeper._holds) == list(transport.live) == [outer.id], moment
            assert client._holder.token_for("i1", None) == outer.token
        assert nothing_is_left(client, transport), moment
        if not came:
            return


def _enter_again(client: OpenIntentClient) -> None:
    with client.lease("i1", "deploy", reentrant=True):
        pass


def test_an_acquire_that_is_interrupted_anywhere_is_given_up():
    for client, transport, moment in moments():
        got: list[Lease] = []
        came = interrupted(lambda: got.append(client.acquire_lease("i1", "deploy")), moment)  # noqa: B023
        assert [lease.id for lease in got] == list(transport.live), moment
        if not came:
            return


# A handler that raises nothing, but uses what it has interrupted


class Kept:
    """A connection between two uses."""

    idle_since = 0.0

    def quiet(self) -> bool:
        return True

    def close(self) -> None:
        pass


def test_a_handler_of_signals_may_use_the_client_that_it_has_interrupted(monkeypatch):
    monkeypatch.setattr(holder, "DEAD_KEPT_MAX", 1)
    for client, transport, moment in moments():
        came = handled(lambda: use(client), lambda: use(client), moment)  # noqa: B023
        assert nothing_is_left(client, transport), moment
        if not came:
            return


def test_a_handler_of_signals_may_use_the_line_that_it_has_interrupted():
    for moment in range(1, MOMENTS_MAX):
        idle: Idle[Kept] = Idle()
        idle.put("a", Kept())
        if not handled(lambda: again(idle), lambda: again(idle), moment):  # noqa: B023
            return


def again(idle: Idle[Kept]) -> None:
    idle.put("a", idle.take("a") or Kept())
