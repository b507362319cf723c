"""etcd's JSON gateway: which member is asked, who we are to it, and what its errors mean.

A request goes to one member. If that cannot be reached, so that nothing was sent, the next one is asked. What was sent
and not answered is repeated only if it changes nothing: of a change nobody can tell whether it will still happen.
"""

import asyncio
import logging
import re
import ssl
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httpx2
import msgspec

from openintent.engines.base import OutcomeUncertain
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

log = logging.getLogger("openintent.engines")

VERSION_MIN: Final = (3, 4)
# Scans and what the journal holds are larger than anything that somebody waits for.
BULK_TIMES: Final = 6
# From so many revisions on, of which the first is still there, nobody seems to compact.
REVISIONS_UNCOMPACTED: Final = 100_000

# By gRPC's numbers. All others may come after the request was passed on to the cluster.
INVALID: Final = 3
SURELY_NOTHING: Final = frozenset({INVALID, 5, 7, 8, 9, 11, 12, 16})
UNKNOWN: Final = 2
NOT_OFFERED: Final = -1  # none of gRPC's: there is no such path
COMPACTED: Final = "revision has been compacted"
NOT_ENABLED: Final = "authentication is not enabled"
# Whoever fills the database is told so, and yet its change is made: only those after it are refused.
NO_SPACE: Final = "space exceeded"
TOKEN_STALE: Final = ("invalid auth token", "revision in header is old", "user name is empty")
DENIED: Final = "permission denied"
ALARMED: Final = "{}: it stores nothing; mend that (NOSPACE: compact, defragment), then `etcdctl alarm disarm`"
ADVICE: Final = {
    NO_SPACE: ALARMED.format("NOSPACE"),
    "user name is empty": "wants a user: etcd://user:password@host:2379/prefix",
    "invalid user ID or password": "wrong user or password",
    DENIED: f"{DENIED}: grant the user's role `readwrite` with --prefix for the prefix",
    "request is too large": "request is too large: --max-request-bytes must be at least its default of 1.5 MiB",
    "too many operations": "too many operations: --max-txn-ops must be at least its default of 128",
}
NO_GATEWAY: Final = "offers no JSON gateway; start it with --enable-grpc-gateway (a config file turns that off)"

_encode = msgspec.json.Encoder().encode


class Place(NamedTuple):
    """Where the keys are, and how to get there."""

    endpoints: tuple[str, ...]
    prefix: bytes
    user: str
    password: str
    timeout_s: float
    weak: bool
    compact: bool
    tls: ssl.SSLContext


class Header(msgspec.Struct):
    cluster_id: int = 0
    revision: int = 0


class KeyValue(msgspec.Struct):
    key: bytes
    value: bytes = b""
    mod_revision: int = 0


class Found(msgspec.Struct):
    """What a range of keys holds."""

    kvs: list[KeyValue] = []
    count: int = 0


class Response(msgspec.Struct):
    response_range: Found = msgspec.field(default_factory=Found)


class Answer(Found):
    """To any question: what it is not about is empty."""

    header: Header = msgspec.field(default_factory=Header)
    more: bool = False
    succeeded: bool = False
    responses: list[Response] = []
    token: str = ""
    members: list[dict[str, Any]] = []
    alarms: list[dict[str, Any]] = []


class Version(msgspec.Struct):
    etcdserver: str = "0"

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", self.etcdserver)[:3]))


class Refusal(msgspec.Struct):
    code: int = 0
    message: str = ""
    error: str = ""

    @property
    def told(self) -> str:
        return self.message or self.error


class Gateway:
    """For all requests of a store. Admitted by the cluster when it is first asked."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._line: httpx2.AsyncHTTPTransport | None = None
        self._at = 0  # the endpoint that is asked first
        self._token = ""
        self._cluster_id = 0
        self._admitted = False
        self._closed = False
        self._admission = asyncio.Lock()
        self.members = 0
        self.version = ""
        self.notice: str | None = None

    async def ask(self, path: str, body: Any, *, writes: bool = False, bulk: bool = False) -> Answer:
        if not self._admitted:
            async with self._admission:
                await self._admit()
        timeout_s = self._place.timeout_s * (BULK_TIMES if bulk else 1)
        try:
            return await self._ask(path, body, writes=writes, timeout_s=timeout_s)
        except TokenStale:
            # It was refused before anything was done.
            await self._log_in()
            return await self._ask(path, body, writes=writes, timeout_s=timeout_s)

    async def require_no_alarm(self) -> None:
        """While there is one, nothing can be stored."""
        try:
            found = await self.ask("/v3/maintenance/alarm", {"action": "GET"})
        except EngineUnavailable as error:
            if DENIED not in str(error):  # some versions tell nobody but root
                raise
            return
        for alarm in found.alarms:
            raise EngineUnavailable(f"etcd at {self.endpoint}: {ALARMED.format(alarm.get('alarm', 'an alarm'))}")

    async def reopen(self) -> None:
        line, self._line, self._admitted = self._line, None, False
        if line is not None:
            await line.aclose()

    async def close(self) -> None:
        self._closed = True
        await self.reopen()

    @property
    def endpoint(self) -> str:
        return self._place.endpoints[self._at]

    # One request

    async def _ask(self, path: str, body: Any, *, writes: bool, timeout_s: float) -> Answer:
        response = await self._exchange("POST", path, _encode(body), writes=writes, timeout_s=timeout_s)
        if response.status_code != HTTPStatus.OK:
            raise self._failure(_refusal(response), writes=writes)
        try:
            answer = msgspec.json.decode(response.content, type=Answer, strict=False)
        except msgspec.MsgspecError as error:
            raise self._doubt(f"answers what cannot be read: {error}", writes=writes) from error
        return self._of_one_cluster(answer)

    async def _exchange(
        self, method: str, path: str, content: bytes, *, writes: bool, timeout_s: float
    ) -> httpx2.Response:
        """From the first member that can be reached."""
        failure: EngineError = EngineUnavailable("no endpoint was asked")
        for _ in self._place.endpoints:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._send(method, path, content, timeout_s)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
                failure = EngineUnavailable(f"etcd at {self.endpoint} cannot be reached: {_one_line(error)}")
                self._leave()
            except (TimeoutError, httpx2.TimeoutException) as error:
                raise self._doubt(f"gave no answer within {timeout_s:g} s", writes=writes) from error
            except (httpx2.RequestError, OSError) as error:  # OSError: what TLS says of a certificate of ours
                failure = self._doubt(f"gave no answer: {_one_line(error)}", writes=writes)
                if writes:
                    raise failure from error
        raise failure

    async def _send(self, method: str, path: str, content: bytes, timeout_s: float) -> httpx2.Response:
        if self._closed:
            raise EngineUnavailable(f"etcd at {self.endpoint} is closed")
        if self._line is None:
            # Without the client above it, which writes a line to the log for each request. Nor does this look for a
            # proxy in the environment: that is for the web.
            self._line = httpx2.AsyncHTTPTransport(verify=self._place.tls, trust_env=False)
        # Time to reach each of them, and for the answer of the last.
        connect_s = self._place.timeout_s / (1 + len(self._place.endpoints))
        limits = httpx2.Timeout(timeout_s, connect=connect_s).as_dict()
        headers = {"Authorization": self._token} if self._token else {}
        request = httpx2.Request(
            method, self.endpoint + path, content=content, headers=headers, extensions={"timeout": limits}
        )
        response = await self._line.handle_async_request(request)
        try:
            await response.aread()
        finally:
            await response.aclose()
        return response

    def _leave(self) -> None:
        """Ask another member first from now on."""
        self._at = (self._at + 1) % len(self._place.endpoints)

    # What is wrong

    def _doubt(self, told: str, *, writes: bool) -> EngineError:
        error = (OutcomeUncertain if writes else EngineUnavailable)(f"etcd at {self.endpoint} {told}")
        self._leave()
        return error

    def _failure(self, refusal: Refusal, *, writes: bool) -> EngineError:
        if self._place.user and any(words in refusal.told for words in TOKEN_STALE):
            return TokenStale(self._told(refusal))
        if refusal.code == NOT_OFFERED:
            return EngineUnavailable(f"etcd at {self.endpoint} {NO_GATEWAY} ({refusal.told})")
        surely = refusal.code in SURELY_NOTHING and NO_SPACE not in refusal.told
        error = (EngineUnavailable if surely or not writes else OutcomeUncertain)(self._told(refusal))
        if not surely:
            self._leave()
        return error

    def _told(self, refusal: Refusal) -> str:
        told = next((advice for words, advice in ADVICE.items() if words in refusal.told), refusal.told)
        return f"etcd at {self.endpoint}: {told.removeprefix('etcdserver: ')}"

    def _of_one_cluster(self, answer: Answer) -> Answer:
        found = answer.header.cluster_id
        if found and self._cluster_id and found != self._cluster_id:
            raise EngineCorrupt(f"etcd at {self.endpoint} is of another cluster than the rest of the URL")
        self._cluster_id = self._cluster_id or found
        return answer

    # Before anything else

    async def _admit(self) -> None:
        if self._admitted:
            return
        timeout_s = self._place.timeout_s
        response = await self._exchange("GET", "/version", b"", writes=False, timeout_s=timeout_s)
        try:
            version = msgspec.json.decode(response.content, type=Version)
        except msgspec.MsgspecError:
            raise EngineUnavailable(f"{self.endpoint} is no etcd: it does not tell its version") from None
        if version.parts < VERSION_MIN:
            wanted = ".".join(map(str, VERSION_MIN))
            raise EngineUnavailable(
                f"etcd at {self.endpoint} is {version.etcdserver}, and {wanted} is the oldest that serves"
            )
        self.version = version.etcdserver
        unused = await self._log_in() if self._place.user else None
        members = await self._ask("/v3/cluster/member/list", {}, writes=False, timeout_s=timeout_s)
        self.members = len(members.members)
        weakness = weakness_of(version.parts, members=self.members)
        if weakness and not self._place.weak:
            raise EngineUnavailable(f"etcd at {self.endpoint} {weakness}; upgrade it, or allow that: ?durability=weak")
        self._tell(weakness, unused, await self._uncompacted())
        self._admitted = True

    async def _log_in(self) -> str | None:
        """Get a token; what to tell if none is needed."""
        self._token = ""
        body = {"name": self._place.user, "password": self._place.password}
        try:
            answer = await self._ask("/v3/auth/authenticate", body, writes=False, timeout_s=self._place.timeout_s)
        except EngineUnavailable as error:
            if NOT_ENABLED not in str(error):
                raise
            return "asks nobody for a password, although the URL has one: `etcdctl auth enable`"
        self._token = answer.token
        return None

    async def _uncompacted(self) -> str | None:
        """What to tell if history grows for ever. That of a young cluster may, for a while."""
        body = {"key": self._place.prefix, "revision": 1}
        try:
            answer = await self._ask("/v3/kv/range", body, writes=False, timeout_s=self._place.timeout_s)
        except EngineUnavailable as error:
            if COMPACTED not in str(error):
                raise
            return None
        if self._place.compact or answer.header.revision < REVISIONS_UNCOMPACTED:
            return None
        told = f"has never been compacted in {answer.header.revision} revisions, and will be full one day"
        return f"{told}: set --auto-compaction-retention, or add ?compact=yes"

    def _tell(self, *told: str | None) -> None:
        alone = "has one member: when that is lost, all is lost" if self.members == 1 else None
        notices = [each for each in (*told, alone) if each]
        notice = f"etcd at {self.endpoint} {'; it '.join(notices)}" if notices else None
        if notice is not None and notice != self.notice:
            log.warning("engine warned notice=%s", notice)
        self.notice = notice


class TokenStale(EngineUnavailable):
    """The token has had its time, or the member that gave it has forgotten it."""


def weakness_of(version: tuple[int, ...], *, members: int) -> str | None:
    """What is known of versions that lose commits which they acknowledged."""
    if (3, 5, 0) <= version < (3, 5, 3):
        return "is 3.5.0, 3.5.1 or 3.5.2, which may lose commits in a crash"
    if members == 1 and (version < (3, 4, 21) or (3, 5, 0) <= version < (3, 5, 5)):
        return "is older than 3.4.21 or 3.5.5 and has one member, which may lose commits in a crash"
    return None


def is_address(endpoint: str) -> bool:
    try:
        return bool(httpx2.URL(endpoint).host)
    except httpx2.InvalidURL:
        return False


def _refusal(response: httpx2.Response) -> Refusal:
    try:
        return msgspec.json.decode(response.content, type=Refusal)
    except msgspec.MsgspecError:
        code = NOT_OFFERED if response.status_code == HTTPStatus.NOT_FOUND else UNKNOWN
        return Refusal(code=code, message=f"HTTP {response.status_code}")


def _one_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
