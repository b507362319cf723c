"""Streams of both clients: what is told badly is heard well."""

import asyncio
import gc
import threading

import pytest
from tellers import Connection, Teller, heard, message, shut, take, telling

from openintent import AsyncOpenIntentClient, EventsGone, NotFoundError, OpenIntentClient, OpenIntentError
from openintent.client import following, streams
from openintent.client.loop import streams as loop_streams

pytestmark = pytest.mark.anyio

SOON_S = 10.0  # generous: what takes longer hangs


@pytest.fixture(params=["sync", "async"])
def kind(request):
    return OpenIntentClient if request.param == "sync" else AsyncOpenIntentClient


@pytest.fixture
async def connect(kind):
    """Makes clients of one kind, and closes them."""
    made = []

    def make(*urls):
        made.append(kind(list(urls), agent_id="reader"))
        return made[-1]

    yield make
    for client in made:
        await shut(client)


def from_place(connection: Connection) -> int:
    return int(connection.after or 0) + 1


def a_few_at_a_time(teller: Teller, connection: Connection) -> None:
    """Three events of twelve, then the connection breaks within a letter of the next."""
    first = from_place(connection)
    connection.begin()
    for seq in range(first, min(first + 3, 13)):
        connection.tell(message(seq))
    broken = message(first + 3)
    connection.tell(broken[: broken.index("é".encode()) + 1])


def all_and_wait(teller: Teller, connection: Connection) -> None:
    connection.begin()
    connection.tell(b"".join(message(seq) for seq in range(from_place(connection), 4)))
    teller.told.set()
    connection.wait_gone()


def silence(teller: Teller, connection: Connection) -> None:
    connection.begin()
    connection.wait_gone()


async def test_nothing_is_missed_and_nothing_repeated_over_broken_connections(connect):
    with telling(a_few_at_a_time) as teller:
        stream = connect(teller.url).subscribe_intent("i1", after=0)
        found = await take(stream, 12)
        assert [event.seq for event in found] == list(range(1, 13))
        assert found[0].payload == {"é": 1}
        assert teller.asked[:4] == [None, "3", "6", "9"]
        assert stream.cursor == 12
        await shut(stream)


async def test_it_connects_when_it_is_first_asked(connect):
    with telling(all_and_wait) as teller:
        stream = connect(teller.url).subscribe_intent("i1", after=1)
        assert (teller.count, stream.cursor) == (0, 1)
        assert (await heard(stream)).seq == 2
        assert teller.asked == ["1"]


def one_at_a_time(teller: Teller, connection: Connection) -> None:
    connection.begin()
    connection.tell(message(from_place(connection)))
    connection.tell(b'event: closed\ndata: {"reason": "slow", "cursor": 99}\n\n')
    connection.finish_well()


async def test_an_answer_that_ends_well_is_followed_by_the_next_from_another_address(connect):
    with telling(one_at_a_time) as first, telling(one_at_a_time) as second:
        stream = connect(first.url, second.url).subscribe_intent("i1", after=0)
        assert [event.seq for event in await take(stream, 4)] == [1, 2, 3, 4]
        assert (first.asked[:2], second.asked[:2]) == ([None, "2"], ["1", "3"])


async def test_another_address_takes_over(connect):
    with telling(a_few_at_a_time) as second:
        with telling(a_few_at_a_time) as first:
            stream = connect(first.url, second.url).subscribe_intent("i1", after=0)
            assert [event.seq for event in await take(stream, 5)] == [1, 2, 3, 4, 5]
            assert (first.asked[0], second.asked[0]) == (None, "3")
        assert [event.seq for event in await take(stream, 6)] == [6, 7, 8, 9, 10, 11]


async def test_a_connection_that_is_dead_is_noticed(connect, monkeypatch):
    monkeypatch.setattr(following, "SILENCE_S_MAX", 0.2)
    with telling(silence) as teller:
        client = connect(teller.url)
        stream = client.subscribe_intent("i1", after=1)
        waiting = asyncio.ensure_future(heard(stream))
        assert await asyncio.to_thread(teller.gone.wait, SOON_S)
        teller.telling = all_and_wait
        assert (await asyncio.wait_for(waiting, SOON_S)).seq == 2


async def test_what_is_not_there_is_said_on_the_first_question(connect):
    with telling(lambda _, connection: connection.refuse(404, "not_found")) as teller:
        stream = connect(teller.url).subscribe_intent("i1")
        with pytest.raises(NotFoundError):
            await heard(stream)
        assert await heard(stream) is None


async def test_a_gap_is_told_with_the_oldest_event_or_skipped(connect):
    def gone(teller: Teller, connection: Connection) -> None:
        if connection.after == "1":
            connection.refuse(410, "events_gone", oldest=3)
        else:
            all_and_wait(teller, connection)

    with telling(gone) as teller:
        client = connect(teller.url)
        with pytest.raises(EventsGone) as told:
            await heard(client.subscribe_intent("i1", after=1))
        assert told.value.oldest == 3
        assert (await heard(client.subscribe_intent("i1", after=1, on_gap="skip"))).seq == 3


async def test_no_server_is_said_soon(connect, monkeypatch):
    monkeypatch.setattr("openintent.client.flows.UNREACHABLE_S_MAX", 0.2)
    with telling(silence) as teller:
        url = teller.url
    with pytest.raises(OpenIntentError, match="no server could be reached"):
        await heard(connect(url).subscribe_intent("i1"))


async def test_what_is_no_event_is_said(connect):
    def nonsense(teller: Teller, connection: Connection) -> None:
        connection.begin()
        connection.tell(b"id: 1\nevent: comment\ndata: <html>\n\n")

    with telling(nonsense) as teller, pytest.raises(OpenIntentError, match="not understood"):
        await heard(connect(teller.url).subscribe_intent("i1", after=0))


async def test_only_what_is_asked_for_comes(connect):
    def mixed(teller: Teller, connection: Connection) -> None:
        connection.begin()
        connection.tell(message(1) + message(2, "state_patched") + message(3))
        connection.tell(b'event: lease_queue\ndata: {"space": "intent:i1", "scope": "a", "queue_length": 2}\n\n')
        connection.tell(message(4, "state_patched") + message(5))
        connection.wait_gone()

    with telling(mixed) as teller:
        client = connect(teller.url)
        patched = client.subscribe_intent("i1", after=0, types="state_patched")
        assert [event.seq for event in await take(patched, 2)] == [2, 4]
        queue = await heard(client.subscribe_intent("i1", after=0, types=["lease_queue"]))
        assert (queue.seq, queue.intent_id, queue.payload["queue_length"]) == (0, "i1", 2)
        everything = client.subscribe_intent("i1", after=0)
        assert [event.seq for event in await take(everything, 5)] == [1, 2, 3, 4, 5]


# Closing


def stuck_in_the_head(teller: Teller, connection: Connection) -> None:
    connection.wait_gone()


@pytest.mark.parametrize("how", [silence, stuck_in_the_head], ids=["listening", "connecting"])
async def test_closing_it_ends_the_waiting_at_once_wherever_it_is(connect, how):
    with telling(how) as teller:
        stream = connect(teller.url).subscribe_intent("i1")
        waiting = asyncio.ensure_future(heard(stream))
        assert await asyncio.to_thread(teller.came.wait, SOON_S)
        await shut(stream)
        assert await asyncio.wait_for(waiting, SOON_S / 5) is None
        assert await heard(stream) is None


async def test_closing_it_leaves_no_connection_behind(connect):
    with telling(all_and_wait) as teller:
        stream = connect(teller.url).subscribe_intent("i1", after=0)
        await take(stream, 3)
        await shut(stream)
        assert await asyncio.to_thread(teller.gone.wait, SOON_S)


async def test_one_that_is_forgotten_leaves_no_connection_behind(connect):
    with telling(all_and_wait) as teller:
        stream = connect(teller.url).subscribe_intent("i1", after=0)
        await take(stream, 2)
        del stream
        gc.collect()
        assert await asyncio.to_thread(teller.gone.wait, SOON_S)


async def test_closing_the_client_ends_its_streams(connect):
    with telling(silence) as teller:
        client = connect(teller.url)
        stream = client.subscribe_intent("i1")
        waiting = asyncio.ensure_future(heard(stream))
        assert await asyncio.to_thread(teller.came.wait, SOON_S)
        await shut(client)
        assert await asyncio.wait_for(waiting, SOON_S) is None


async def test_one_that_was_closed_before_it_began_never_connects(connect):
    with telling(silence) as teller:
        stream = connect(teller.url).subscribe_intent("i1")
        await shut(stream)
        assert await heard(stream) is None
        assert teller.count == 0


async def test_a_block_closes_it(kind, connect):
    with telling(all_and_wait) as teller:
        stream = connect(teller.url).subscribe_intent("i1", after=0)
        if kind is OpenIntentClient:
            with stream as found:
                assert await heard(found)
        else:
            async with stream as found:
                assert await heard(found)
        assert await heard(stream) is None


# Reading ahead


async def test_who_does_not_keep_up_gets_everything_all_the_same(connect, monkeypatch):
    monkeypatch.setattr(streams, "READ_AHEAD_MAX", 5)

    def many(teller: Teller, connection: Connection) -> None:
        connection.begin()
        for seq in range(from_place(connection), 201):
            connection.tell(message(seq))
        connection.wait_gone()

    with telling(many) as teller:
        stream = connect(teller.url).subscribe_intent("i1", after=0)
        assert [event.seq for event in await take(stream, 200)] == list(range(1, 201))
        assert teller.count == 1
        await shut(stream)


class Hose:
    """A transport that brings an event with each piece, and says when somebody has read far ahead."""

    def __init__(self) -> None:
        self.far = threading.Event()

    def listen(self, call):
        return self

    def pieces(self):
        for seq in range(1, 1_000):
            if seq == 100:
                self.far.set()
            yield message(seq)

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_it_reads_ahead_only_so_far(monkeypatch):
    monkeypatch.setattr(streams, "READ_AHEAD_MAX", 5)
    hose = Hose()
    place = following.Following("intent:i1", after=0, types=None, on_gap="raise", patience_s=1.0)
    with streams.Stream(place, hose, streams.event_of) as stream:
        assert [next(stream).seq for _ in range(50)] == list(range(1, 51))
        assert not hose.far.wait(0.3)
        assert [next(stream).seq for _ in range(60)] == list(range(51, 111))
        assert hose.far.wait(SOON_S)


class AsyncHose(Hose):
    async def listen(self, call):
        return self

    async def pieces(self):
        for piece in super().pieces():
            await asyncio.sleep(0)
            yield piece

    async def close(self) -> None:
        pass


async def test_it_reads_ahead_only_so_far_in_a_loop(monkeypatch):
    monkeypatch.setattr(streams, "READ_AHEAD_MAX", 5)
    hose = AsyncHose()
    place = following.Following("intent:i1", after=0, types=None, on_gap="raise", patience_s=1.0)
    async with loop_streams.AsyncStream(place, hose, streams.event_of) as stream:
        assert [(await anext(stream)).seq for _ in range(50)] == list(range(1, 51))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert not hose.far.is_set()
        assert [(await anext(stream)).seq for _ in range(60)] == list(range(51, 111))


async def test_the_place_is_that_of_the_last_event_that_was_taken(connect):
    with telling(all_and_wait) as teller:
        stream = connect(teller.url).subscribe_intent("i1", after=0)
        assert (await heard(stream)).seq == 1
        assert await asyncio.to_thread(teller.told.wait, SOON_S)
        resumed = connect(teller.url).subscribe_intent("i1", after=1)
        assert (await heard(stream), stream.cursor) == (await heard(resumed), 2)


async def test_a_wait_that_was_given_up_costs_no_event():
    with telling(silence) as teller:
        async with AsyncOpenIntentClient(teller.url) as client:
            stream = client.subscribe_intent("i1", after=0)
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(stream), 0.05)
            assert teller.count == 1
            await stream.close()


def test_threads_share_a_stream():
    with telling(all_and_wait) as teller, OpenIntentClient(teller.url) as client:
        stream = client.subscribe_intent("i1", after=0)
        found: list[int] = []
        readers = [threading.Thread(target=lambda: found.append(next(stream).seq)) for _ in range(3)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(SOON_S)
        assert sorted(found) == [1, 2, 3]


def test_a_forked_process_must_subscribe_anew(monkeypatch):
    with telling(all_and_wait) as teller, OpenIntentClient(teller.url) as client:
        stream = client.subscribe_intent("i1", after=0)
        assert next(stream).seq == 1
        with monkeypatch.context() as child:
            child.setattr("os.getpid", lambda: -1)
            with pytest.raises(RuntimeError, match="subscribe anew"):
                next(stream)
        assert next(stream).seq == 2


@pytest.mark.parametrize("wrong", [{"after": -1}, {"after": "7"}, {"after": True}, {"on_gap": "ignore"}])
def test_what_cannot_be_meant_is_said_at_once(wrong):
    with OpenIntentClient() as client, pytest.raises(ValueError):
        client.subscribe_intent("i1", **wrong)
