"""The proxy itself: each fault is seen from both ends, against a server that says everything back."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic

import pytest
from faultproxy import FaultProxy

pytestmark = pytest.mark.anyio

SOON_S = 5.0
EARLY = 0.5  # a loop that reads the time once in a turn sleeps a little less than it was asked to
# How long one waits for something that must not come. Too short makes a test blind now and then, never red.
NEVER_S = 0.1


class Echo:
    """Says back what it hears, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended = asyncio.Event()
        self.hears = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1_000):
                self.heard += data
                self.hears.set()
                writer.write(data)
        except ConnectionResetError:
            pass
        finally:
            self.ended.set()
            writer.close()


@pytest.fixture
async def echo() -> Echo:
    return Echo()


@pytest.fixture
async def proxy(echo: Echo) -> AsyncIterator[FaultProxy]:
    listener = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    proxy = FaultProxy(listener.sockets[0].getsockname()[1])
    yield proxy
    await proxy.stop()
    listener.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def hears(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), SOON_S)

    async def hears_nothing(self) -> bool:
        try:
            await asyncio.wait_for(self.reader.readexactly(1), NEVER_S)
        except TimeoutError:
            return True
        return False


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    url = await proxy.start()
    client = Client(*await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2])))
    yield client
    client.writer.close()


async def test_without_a_fault_everything_passes(client):
    client.writer.write(b"hello")
    assert await client.hears(5) == b"hello"


async def test_delayed_bytes_come_later(proxy, client):
    proxy.requests.delay_s = proxy.answers.delay_s = 0.05
    proxy.answers.jitter_s = 0.01
    begun = monotonic()
    client.writer.write(b"hello")
    assert await client.hears(5) == b"hello"
    assert monotonic() - begun >= 0.1 * EARLY


async def test_a_black_hole_swallows_both_directions_and_closes_nothing(proxy, client, echo):
    proxy.cut()
    client.writer.write(b"hello")
    assert await client.hears_nothing()
    assert echo.heard == b""
    assert not echo.ended.is_set()


async def test_requests_pass_while_answers_are_dropped(proxy, client, echo):
    proxy.answers.drops = True
    client.writer.write(b"hello")
    await asyncio.wait_for(echo.hears.wait(), SOON_S)
    assert await client.hears_nothing()
    assert echo.heard == b"hello"


async def test_answers_pass_while_requests_are_dropped(proxy, client, echo):
    proxy.answers.delay_s = 0.05
    client.writer.write(b"hello")
    await asyncio.wait_for(echo.hears.wait(), SOON_S)
    proxy.requests.drops = True
    client.writer.write(b"again")
    assert await client.hears(5) == b"hello"
    assert await client.hears_nothing()
    assert echo.heard == b"hello"


async def test_a_request_is_cut_after_n_bytes(proxy, client, echo):
    proxy.requests.cut_after = 3
    client.writer.write(b"hello")
    await asyncio.wait_for(echo.ended.wait(), SOON_S)
    assert echo.heard == b"hel"


async def test_an_answer_is_cut_after_n_bytes(proxy, client, echo):
    proxy.answers.cut_after = 2
    client.writer.write(b"hello")
    assert await asyncio.wait_for(client.reader.read(), SOON_S) == b"he"
    assert echo.heard == b"hello"


async def test_a_slow_drip_comes_byte_by_byte(proxy, client):
    proxy.answers.drip_s = 0.01
    begun = monotonic()
    client.writer.write(b"hello")
    assert await client.hears(1) == b"h"
    assert await client.hears(4) == b"ello"
    assert monotonic() - begun >= 0.05 * EARLY


async def test_a_reset_is_told_to_both_ends(proxy, client, echo):
    client.writer.write(b"hello")
    await client.hears(5)
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(client.reader.read(), SOON_S)
    await asyncio.wait_for(echo.ended.wait(), SOON_S)


async def test_what_was_held_back_arrives_after_healing(proxy, client, echo):
    proxy.hold_answers()
    proxy.requests.may_pass.clear()
    client.writer.write(b"hello")
    assert await client.hears_nothing()
    assert echo.heard == b""
    proxy.heal()
    assert await client.hears(5) == b"hello"


async def test_a_connection_that_lost_bytes_is_reset_by_healing_and_a_new_one_works(proxy, client):
    proxy.cut()
    client.writer.write(b"hello")
    assert await client.hears_nothing()
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(client.reader.read(), SOON_S)
    port = client.writer.get_extra_info("peername")[1]
    anew = Client(*await asyncio.open_connection("127.0.0.1", port))
    anew.writer.write(b"again")
    assert await anew.hears(5) == b"again"
    anew.writer.close()
