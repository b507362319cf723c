"""Blocks: what becomes of the body when the lease is lost. No server is asked; the test takes the lease away itself."""

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from queue import Queue

import pytest
from samples import AGENT, seen_now

from openintent.client import drivers
from openintent.client.blocks import LeaseBlock
from openintent.client.calls import Wish
from openintent.client.holder import Holder
from openintent.client.lease import Lease, hold_of
from openintent.client.loop.blocks import AsyncLeaseBlock
from openintent.errors import LeaseLost, Unavailable

WISH = Wish(space="intent:i1", scope="deploy")
PATIENCE_S = 10.0


class Ended(Exception):
    """The body's own, whatever it means."""


@pytest.fixture
def holder() -> Iterator[Holder]:
    made = Holder(["http://127.0.0.1:9"], None, AGENT, timeout_s=1.0)
    yield made
    made.keeper.close()


class World:
    """Grants every wish, and keeps what was to be released."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.granted = 0
        self.released: list[bool] = []

    def acquire(self, _: Wish) -> Lease:
        self.granted += 1
        return self.holder.take(seen_now(lease_id=f"L{self.granted}"))

    async def acquire_async(self, wish: Wish) -> Lease:
        return self.acquire(wish)

    def run(self, flow):
        return drivers.run(flow, self)

    def exchange(self, call):
        """The release arrives when trust has ended, never before."""
        lease_id = call.path.rsplit("/", 1)[1]
        known = self.holder._leases.get(lease_id)
        self.released.append(known is None or hold_of(known).over)
        raise Unavailable(code="limit_reached")

    def close(self) -> None:
        pass

    async def finish(self, make, _: float) -> None:
        with suppress(Unavailable):
            self.run(make())

    def block(self, **callbacks) -> LeaseBlock:
        return LeaseBlock(self.holder, WISH, self.acquire, self.run, **callbacks)

    def async_block(self, **callbacks) -> AsyncLeaseBlock:
        return AsyncLeaseBlock(self.holder, WISH, self.acquire_async, self.finish, **callbacks)


@pytest.fixture
def world(holder) -> World:
    return World(holder)


def lose(lease: Lease, reason: str = "revoked") -> None:
    """As the keeper does it: from another thread."""
    thread = threading.Thread(target=hold_of(lease).lose, args=(reason,))
    thread.start()
    thread.join()


async def forever() -> None:
    await asyncio.Event().wait()


async def lose_and_wait(lease: Lease) -> None:
    lose(lease)
    await forever()


def work(block: LeaseBlock, body: Callable[[Lease], object]) -> None:
    with block as lease:
        body(lease)


async def work_async(block: AsyncLeaseBlock, body: Callable[[Lease], Awaitable[object]]) -> None:
    async with block as lease:
        await body(lease)


# Threads


def test_trust_ends_before_the_release_is_sent(world):
    with world.block() as lease:
        lease.check()
    assert world.released == [True]
    assert lease.status == "released"


def test_what_was_left_is_renewed_no_more_and_never_taken_for_new(world, holder):
    with world.block() as lease:
        assert holder.keeper._holds.keys() == {lease.id}
    assert holder.keeper._holds == {}
    assert holder.is_dead(seen_now(lease_id=lease.id))
    assert holder.kept(lease.space, lease.scope) is None


def test_a_body_that_ends_normally_under_a_lost_lease_is_told(world):
    with pytest.raises(LeaseLost) as lost:
        work(world.block(), lose)
    assert lost.value.reason == "revoked"


def test_an_exception_of_the_body_stays(world):
    def fail(lease: Lease) -> None:
        lose(lease)
        raise Ended

    with pytest.raises(Ended):
        work(world.block(), fail)


def test_what_the_server_took_is_not_given_back(world):
    with pytest.raises(LeaseLost):
        work(world.block(), lose)
    assert world.released == []


def test_what_was_lost_by_silence_is_given_back_all_the_same(world):
    with pytest.raises(LeaseLost):
        work(world.block(), lambda lease: lose(lease, "trust_ended"))
    assert world.released == [True]


def test_what_was_preempted_is_given_back_as_soon_as_the_work_has_stopped(world):
    def body(lease: Lease) -> None:
        hold_of(lease).ask_back()
        lose(lease, "trust_ended")

    with pytest.raises(LeaseLost) as lost:
        work(world.block(), body)
    assert lost.value.reason == "preempted"
    assert world.released == [True]


def test_whoever_wants_to_know_is_called_when_the_lease_is_asked_for(world):
    called: Queue[Lease] = Queue()

    def body(lease: Lease) -> None:
        hold_of(lease).ask_back()
        assert called.get(timeout=PATIENCE_S) is lease

    work(world.block(on_preempt=called.put), body)


def test_callbacks_are_called_with_the_lease(world):
    called: Queue[Lease] = Queue()

    def body(lease: Lease) -> None:
        lose(lease)
        assert called.get(timeout=PATIENCE_S) is lease

    with pytest.raises(LeaseLost):
        work(world.block(on_lost=called.put), body)


def test_a_loss_that_is_found_on_the_way_out_is_told_too(world):
    called: Queue[Lease] = Queue()

    def let_time_pass(lease: Lease) -> None:
        hold_of(lease)._clock = lambda: math.inf

    with pytest.raises(LeaseLost):
        work(world.block(on_lost=called.put), let_time_pass)
    assert called.get(timeout=PATIENCE_S).status == "expired"


def test_a_callback_that_blocks_holds_up_nobody(world):
    go_on = threading.Event()
    with pytest.raises(LeaseLost):
        work(world.block(on_lost=lambda _: go_on.wait(PATIENCE_S)), lose)
    go_on.set()


def test_a_callback_that_fails_harms_nobody(world, caplog):
    failed = threading.Event()

    def fail(_: Lease) -> None:
        failed.set()
        raise Ended

    with pytest.raises(LeaseLost):
        work(world.block(on_lost=fail), lose)
    assert failed.wait(PATIENCE_S)


def test_a_block_is_entered_once(world):
    block = world.block()
    with block, pytest.raises(RuntimeError, match="open already"):
        block.__enter__()


def test_writes_inside_name_the_innermost_token(world, holder):
    assert holder.token_for("i1", None) is None
    with world.block() as outer:
        assert holder.token_for("i1", None) == outer.token
        assert holder.token_for("i2", None) is None
        assert holder.token_for("i2", outer) == outer.token
        with world.block() as inner:
            assert holder._innermost("intent:i1") is inner
        assert holder._innermost("intent:i1") is outer
    assert holder.token_for("i1", None) is None


def test_writes_name_the_token_also_after_the_loss(world, holder):
    def body(lease: Lease) -> None:
        lose(lease)
        assert holder.token_for("i1", None) == lease.token

    with pytest.raises(LeaseLost):
        work(world.block(), body)


# Tasks


@pytest.mark.anyio
async def test_the_loss_cancels_the_task_and_says_so(world):
    with pytest.raises(LeaseLost) as lost:
        await work_async(world.async_block(), lose_and_wait)
    assert isinstance(lost.value.__cause__, asyncio.CancelledError)
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)


@pytest.mark.anyio
async def test_a_cancellation_from_outside_stays_one(world):
    entered = asyncio.Event()

    async def work() -> None:
        async with world.async_block():
            entered.set()
            await forever()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.released == [True]


@pytest.mark.anyio
async def test_a_cancellation_from_outside_wins_over_the_loss(world):
    entered: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with world.async_block() as lease:
            entered.set_result(lease)
            await forever()

    task = asyncio.create_task(work())
    lose(await entered)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.anyio
async def test_a_timeout_around_the_block_stays_a_timeout(world):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), world.async_block():
            await forever()


@pytest.mark.anyio
async def test_a_body_that_swallows_the_cancellation_is_told_all_the_same(world):
    async def swallow(lease: Lease) -> None:
        with suppress(asyncio.CancelledError):
            await lose_and_wait(lease)

    with pytest.raises(LeaseLost):
        await work_async(world.async_block(), swallow)
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.anyio
async def test_an_exception_of_the_task_stays(world):
    async def fail(lease: Lease) -> None:
        try:
            await lose_and_wait(lease)
        except asyncio.CancelledError:
            raise Ended from None

    with pytest.raises(Ended):
        await work_async(world.async_block(), fail)
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.anyio
async def test_a_loss_as_the_body_ends_hits_nothing_after_it(world):
    async def end(lease: Lease) -> None:
        lose(lease)

    with pytest.raises(LeaseLost):
        await work_async(world.async_block(), end)
    await asyncio.sleep(0.01)
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.anyio
async def test_the_loss_of_the_outer_lease_is_told_by_the_outer_block(world):
    inner_ended: list[type[BaseException]] = []

    async def work_inside(outer: Lease) -> None:
        try:
            await work_async(world.async_block(), lambda _: lose_and_wait(outer))
        except BaseException as exc:
            inner_ended.append(type(exc))
            raise

    with pytest.raises(LeaseLost):
        await work_async(world.async_block(), work_inside)
    assert inner_ended == [asyncio.CancelledError]
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.anyio
async def test_the_loss_of_both_is_told_by_the_outer_block(world):
    async def work_inside(outer: Lease) -> None:
        async with world.async_block() as inner:
            lose(inner)
            await lose_and_wait(outer)

    with pytest.raises(LeaseLost):
        await work_async(world.async_block(), work_inside)
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.anyio
async def test_a_group_of_tasks_in_the_body_is_cancelled_with_it(world):
    ended = []

    async def child() -> None:
        try:
            await forever()
        finally:
            ended.append(True)

    async def body(lease: Lease) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            await asyncio.sleep(0)
            lose(lease)

    with pytest.raises(LeaseLost):
        await work_async(world.async_block(), body)
    assert ended == [True]
