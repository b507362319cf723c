"""HTTP/1.1 for load: keep-alive connections over plain streams, because a real client would be the bottleneck."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

API = "/api/v1"
PROBES = ("/livez", "/readyz")  # these are not part of the API
ANSWER_S_MAX = 30.0  # beyond what any request here waits for


class Answer(NamedTuple):
    """What came back. Status 0: the connection broke, and whether the request was carried out is not known."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def unknown(self) -> bool:
        """It may or may not have happened: neither a yes nor a no."""
        return self.status in (0, 504)

    @property
    def mark(self) -> tuple[int, int]:
        """Its place in the order of everything: term and number within the term."""
        return int(self.headers["x-term"]), int(self.headers["x-rev"])

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"])


UNKNOWN = Answer(0, {}, None)


class Connection:
    """One agent's connection, opened when it is needed. One request at a time."""

    def __init__(self, port: int, agent: str, *, api_key: str | None = None) -> None:
        self._port = port
        self.agent = agent
        self._api_key = "" if api_key is None else f"x-api-key: {api_key}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, match: int | str | None = None
    ) -> Answer:
        """Send one request and read its answer; `UNKNOWN` if the connection breaks, whatever had been sent by then."""
        more = self._api_key + ("" if key is None else f"idempotency-key: {key}\r\n")
        more += "" if match is None else f"if-match: {match}\r\n"
        content = b"" if body is None else _encode(body)
        target = path if path in PROBES else API + path
        head = (
            f"{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-agent-id: {self.agent}\r\n"
            f"{more}content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                if self._streams is None:
                    self._streams = await asyncio.open_connection("127.0.0.1", self._port)
                reader, writer = self._streams
                writer.write(head.encode() + content)
                return await _answer(reader)
        except (OSError, EOFError, TimeoutError):
            self.close()
            return UNKNOWN
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        """Hang up, in the middle of a request if there is one."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


Connect = Callable[[str], Connection]  # the fixture: a new connection for the agent of that name


async def _answer(reader: asyncio.StreamReader) -> Answer:
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    return Answer(int(start.split(" ", 2)[1]), headers, _decode(content) if content else None)
