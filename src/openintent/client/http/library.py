"""Lines over httpx2, for what needs more than plain HTTP: TLS, proxies, unusual addresses."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import httpx2

from openintent.client.http.idle import IDLE_MAX, IDLE_S_MAX
from openintent.client.http.messages import Answer, Asked, NoAnswer, NotSent

# Every failure of the library, by what it says about the request; a test holds that none is missing.
NEVER_LEFT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)
MAY_HAVE_HAPPENED: Final = (
    httpx2.ReadError,
    httpx2.ReadTimeout,
    httpx2.WriteError,
    httpx2.WriteTimeout,
    httpx2.CloseError,
    httpx2.RemoteProtocolError,
    httpx2.DecodingError,
    httpx2.SSEError,
    httpx2.TooManyRedirects,
)


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except NEVER_LEFT as exc:
        raise NotSent(str(exc) or type(exc).__name__) from exc
    except MAY_HAVE_HAPPENED as exc:
        raise NoAnswer(str(exc) or type(exc).__name__) from exc


def _options(*, encrypted: bool, trust_env: bool) -> dict[str, Any]:
    # A waiting acquire keeps its connection, and there may be as many of them as the caller likes.
    limits = httpx2.Limits(max_keepalive_connections=IDLE_MAX, keepalive_expiry=IDLE_S_MAX)
    # Reading the machine's certificates takes 50 ms, and without TLS nobody will look at them.
    return {"verify": encrypted, "trust_env": trust_env, "limits": limits}


def _request(url: str, asked: Asked) -> dict[str, Any]:
    return {
        "method": asked.method,
        "url": f"{url}{asked.target}",
        "content": asked.body,
        "headers": {**asked.who.headers, **asked.headers},
        "timeout": httpx2.Timeout(asked.timeout_s, connect=asked.connect_s),
    }


def _answer(response: httpx2.Response) -> Answer:
    return Answer(response.status_code, response.headers, response.content)


class Incoming:
    """An answer as it comes in."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self._response = response

    def pieces(self) -> Iterator[bytes]:
        with translated():
            yield from self._response.iter_bytes()

    def interrupt(self) -> None:
        stream = self._response.extensions.get("network_stream")
        with suppress(OSError):  # it has ended by itself
            if stream is not None:
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._response.close()


class AsyncIncoming:
    """The same, to be awaited."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self._response = response

    async def pieces(self) -> AsyncIterator[bytes]:
        with translated():
            async for piece in self._response.aiter_bytes():
                yield piece

    async def close(self) -> None:
        await self._response.aclose()


class Line:
    def __init__(self, *, encrypted: bool, trust_env: bool) -> None:
        self._client = httpx2.Client(**_options(encrypted=encrypted, trust_env=trust_env))

    def exchange(self, url: str, asked: Asked) -> Answer:
        with translated():
            return _answer(self._client.send(self._client.build_request(**_request(url, asked))))

    def listen(self, url: str, asked: Asked) -> Incoming | Answer:
        with translated():
            response = self._client.send(self._client.build_request(**_request(url, asked)), stream=True)
            if response.is_success:
                return Incoming(response)
            response.read()
            return _answer(response)

    def close(self) -> None:
        self._client.close()


class AsyncLine:
    def __init__(self, *, encrypted: bool, trust_env: bool) -> None:
        self._client = httpx2.AsyncClient(**_options(encrypted=encrypted, trust_env=trust_env))

    async def exchange(self, url: str, asked: Asked) -> Answer:
        with translated():
            return _answer(await self._client.send(self._client.build_request(**_request(url, asked))))

    async def listen(self, url: str, asked: Asked) -> AsyncIncoming | Answer:
        with translated():
            response = await self._client.send(self._client.build_request(**_request(url, asked)), stream=True)
            if response.is_success:
                return AsyncIncoming(response)
            await response.aread()
            return _answer(response)

    async def close(self) -> None:
        await self._client.aclose()
