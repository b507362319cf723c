"""Reading requests: bytes into values that are known to be right, or an answer that names everything that is wrong."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from openintent.core.values import TooDeep, weigh
from openintent.model import Limits
from openintent.server import auth, problems
from openintent.server.exchange import Exchange
from openintent.spaces import (
    COORDINATOR_SPACE,
    INTENT_SPACE,
    PLAIN_SPACE,
    PORTFOLIO_SPACE,
)
from openintent.wire import PolicyBody

T = TypeVar("T")
Fault = tuple[list[str | int], str, str]

# Known to the documents, not offered by this version: said so rather than ignored.
NOT_OFFERED: Final[Mapping[str, str]] = {
    "scopes": "several scopes in one request are not offered yet",
    "permits": "semaphores are not offered yet",
}
MODES_NOT_OFFERED: Final = ("shared", "intent", "semaphore")
SLUG_CHARS_MAX: Final = 128
FAULTS_MAX: Final = 100  # nobody reads more, and a body of nothing but faults must not grow tenfold in the answer

_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]*")

_as_json: Final = msgspec.json.Encoder().encode
_as_stored: Final = msgspec.msgpack.Encoder().encode  # integers beyond 64 bits are beyond it
_readers: dict[type, tuple[Callable[[bytes], Any], bool]] = {}  # of each shape: its decoder, and whether it is strict


def check_media_type(exchange: Exchange) -> None:
    """Refuse a body that says it is not JSON. One that says nothing is taken for JSON."""
    coding = exchange.headers.get(b"content-encoding")
    if coding is not None and coding.strip().lower() != b"identity":
        shown = coding[:80].decode("ascii", "replace")
        message = f"Content-Encoding: {shown} is not offered"
        hint = "send the body as it is, not compressed"
        raise problems.Refused(415, problems.plain("unsupported_media_type", message, hint=hint))
    said = exchange.headers.get(b"content-type", b"application/json")
    kind = said.partition(b";")[0].strip().lower()
    if kind != b"application/json" and not kind.endswith(b"+json"):
        hint = "send the body as JSON, with Content-Type: application/json"
        shown = kind[:80].decode("ascii", "replace")
        message = f"Content-Type: {shown} is not JSON"
        raise problems.Refused(415, problems.plain("unsupported_media_type", message, hint=hint))


def decode(shape: type[T], body: bytes) -> T:
    """The body as a value of this shape; an empty body counts as an empty object."""
    reader = _readers.get(shape)
    if reader is None:
        reader = _readers[shape] = (msgspec.json.Decoder(shape).decode, _is_strict(shape))
    read, strict = reader
    try:
        value: T = read(body or b"{}")
        if body and not (strict and _says_no_more_than(value, body)):
            # The shape's decoder passes over what it has no place for, or what stands there is as it would be anyway.
            _check_closely(body, msgspec.json.decode(body))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as broken:
        raise _explained(shape, body or b"{}", broken) from None
    return value


def _is_strict(shape: type) -> bool:
    config: msgspec.structs.StructConfig = shape.__struct_config__  # type: ignore[attr-defined]
    return config.forbid_unknown_fields and config.omit_defaults


def _says_no_more_than(value: Any, body: bytes) -> bool:
    """Whether writing it again takes as many quotes. What was given twice would be lost, and with it quotes."""
    try:
        _as_stored(value)
        again = _as_json(value)
    except OverflowError:
        return False
    if body.find(b"\\") >= 0:  # a quote may be the content of a string, and a backslash may be written in several ways
        return again.count(b'"') - again.count(b'\\"') == body.count(b'"') - body.count(b'\\"')
    return again.count(b'"') == body.count(b'"')


def _check_closely(body: bytes, value: Any) -> None:
    """Refuse what the decoder lets through: integers that no engine can store, and names given twice."""
    try:
        _as_stored(value)
    except OverflowError:
        raise problems.invalid(([], "an integer must fit in 64 bits", "range")) from None
    # What else may be different by writing it again, such as \u005c at the end of a string, is sorted out by the exact
    # search, which takes ten times as long.
    if not _says_no_more_than(value, body):
        _refuse_repeated_names(body)


def _refuse_repeated_names(body: bytes) -> None:
    repeated: list[Fault] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(name for name, _ in pairs)
        repeated.extend(([name], "is given more than once", "repeated") for name, count in counts.items() if count > 1)

    try:
        json.loads(body, object_pairs_hook=collect)
    except RecursionError:
        raise problems.invalid(([], "nested too deeply", "too_deep")) from None
    if repeated:
        raise problems.invalid(*repeated[:FAULTS_MAX])


def decode_loosely(shape: type[T], body: bytes, *, unused: Collection[str] = ()) -> tuple[T, bytes]:
    """The same where free fields are let through; they are named in a header line, as are those of no use to us."""
    value = decode(shape, body)
    raw = msgspec.json.decode(body or b"{}")
    known = {field.encode_name for field in msgspec.structs.fields(shape)}.difference(unused)  # type: ignore[arg-type]
    return value, ignored_line(name for name in raw if name not in known)


def ignored_line(names: Iterable[str]) -> bytes:
    """The header line that names what had no effect, if there is anything that a header can carry."""
    shown = sorted(name for name in names if name.strip() and name.isascii() and name.isprintable())
    return f"x-ignored-fields: {', '.join(shown)[:1000]}\r\n".encode() if shown else b""


def _explained(shape: type, body: bytes, broken: Exception) -> problems.Refused:
    """All that is wrong. The decoder stops at the first error, but a person wants to see every one."""
    try:
        raw = msgspec.json.decode(body)
    except RecursionError:
        return problems.invalid(([], "nested too deeply", "too_deep"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return problems.invalid(([], f"not JSON: {broken}", "json"))
    if not isinstance(raw, dict):
        return problems.invalid(([], "must be an object", "type"))
    for name in raw:
        if name in NOT_OFFERED:
            return problems.not_offered(name, NOT_OFFERED[name])
    parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    faults = [fault for field in msgspec.structs.fields(shape) for fault in _field_faults(field, parts)]
    if shape.__struct_config__.forbid_unknown_fields:  # type: ignore[attr-defined]
        known = {field.encode_name for field in msgspec.structs.fields(shape)}
        faults += [([name], "no such field", "unknown_field") for name in raw if name not in known]
    return problems.invalid(*(faults[:FAULTS_MAX] or [([], str(broken), "invalid")]))


def _field_faults(field: msgspec.structs.FieldInfo, parts: Mapping[str, msgspec.Raw]) -> list[Fault]:
    if field.encode_name not in parts:
        return [([field.encode_name], "is required", "missing")] if field.required else []
    try:
        msgspec.json.decode(parts[field.encode_name], type=field.type)
    except (msgspec.ValidationError, RecursionError) as broken:
        return [([field.encode_name], str(broken), "invalid")]
    return []


class Checks:
    """Collects what is wrong with a request's values, to say it all at once."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.faults: list[Fault] = []

    def fault(self, field: str, what: str, kind: str = "value") -> None:
        self.faults.append(([field], what, kind))

    def settle(self) -> None:
        if self.faults:
            raise problems.invalid(*self.faults)

    def ms(self, field: str, seconds: float, least_ms: int, most_ms: int) -> int:
        """Seconds to milliseconds, within bounds."""
        ms = seconds * 1_000
        if least_ms <= ms <= most_ms:
            return round(ms)
        self.fault(field, f"must be from {least_ms / 1_000:g} to {most_ms / 1_000:g} seconds", "range")
        return least_ms

    def wait_ms(self, seconds: float) -> int:
        return self.ms("wait_seconds", seconds, least_ms=0, most_ms=self.limits.wait_ms_max)

    def ttl_ms(self, body: Any, default_ms: int) -> int:
        field, value = "ttl_seconds", body.ttl_seconds
        if body.duration_seconds is not UNSET:
            if value is not UNSET:
                self.fault(field, "give either ttl_seconds or duration_seconds")
            field, value = "duration_seconds", body.duration_seconds
        if value is UNSET:
            return default_ms
        return self.ms(field, value, self.limits.ttl_ms_min, self.limits.ttl_ms_max)

    def name(self, field: str, value: str, *, most: int | None = None) -> str:
        most = most or self.limits.name_chars_max
        if not (1 <= len(value) <= most and value.isprintable()):
            self.fault(field, f"must have 1 to {most} printable characters")
        return value

    def agents(self, *named: str | None, field: str = "agent_id") -> None:
        for name in named:
            if name is not None:
                self.name(field, name)

    def space(self, field: str, value: str) -> None:
        """A space by its whole name. Without its first part it would be another one, in which nothing is ever held."""
        self.name(field, value, most=self.limits.name_chars_max + len(COORDINATOR_SPACE + PORTFOLIO_SPACE))
        if not value.startswith((INTENT_SPACE, PLAIN_SPACE, COORDINATOR_SPACE)):
            self.fault(field, f"must begin with {INTENT_SPACE}, {PLAIN_SPACE} or {COORDINATOR_SPACE}")

    def slug(self, field: str, value: str | None) -> None:
        """An id that its client chose: it will stand in paths."""
        if value is not None and not (len(value) <= SLUG_CHARS_MAX and _SLUG.fullmatch(value)):
            self.fault(field, f"must have 1 to {SLUG_CHARS_MAX} of A-Z a-z 0-9 . _ : ~ -, not beginning with a sign")

    def policy(self, field: str, policy: PolicyBody | None) -> None:
        if policy is None:
            return
        if policy.max_cost is not None:
            raise problems.not_offered(f"{field}.max_cost", "costs are not counted here, so no bound on them is kept")
        self.size(field, policy.allowed_agents, self.limits.metadata_bytes_max)
        for name in policy.allowed_agents:
            self.name(f"{field}.allowed_agents", name)

    def text(self, field: str, value: str | None) -> str | None:
        if value is not None and len(value) > self.limits.text_chars_max:
            self.fault(field, f"must have at most {self.limits.text_chars_max} characters")
        return value

    def size(self, field: str, value: Any, most: int) -> None:
        try:
            if weigh(value) > most:
                self.fault(field, f"must have at most {most} bytes", "size")
        except TooDeep as broken:
            self.fault(field, str(broken), "too_deep")


def policy(body: PolicyBody | None) -> dict[str, Any] | None:
    """A governance policy as it is kept."""
    if body is None:
        return None
    kept: dict[str, Any] = msgspec.to_builtins(body)
    del kept["max_cost"]
    return kept


def header_text(exchange: Exchange, name: bytes, limits: Limits) -> str | None:
    """A header as text, or None if it is absent or empty."""
    raw = exchange.headers.get(name)
    if not raw:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    if 1 <= len(text) <= limits.name_chars_max and text.isprintable():
        return text
    what = f"must have 1 to {limits.name_chars_max} printable characters"
    raise problems.invalid(([name.decode()], what, "value"), part="header")


def _speaker(exchange: Exchange, limits: Limits, named: str | None) -> str | None:
    said = header_text(exchange, b"x-agent-id", limits)  # refused if it is malformed, even where the body has the word
    if exchange.head is not None:
        exchange.head.agent = said
    return said if named is None else named


def agent(exchange: Exchange, limits: Limits, named: str | None = None) -> str:
    """Who asks: `named` elsewhere than in the header, and checked there. Lease calls without an agent are refused."""
    head = exchange.head
    if head is not None and head.agent is not None:
        found: str | None = head.agent if named is None else named
    else:
        found = _speaker(exchange, limits, named)
    if found is None:
        raise problems.Refused(
            400, problems.plain("agent_required", "X-Agent-ID header required", hint="say which agent is asking")
        )
    principal = exchange.principal
    if principal.bound and not principal.may_act_as(found):
        raise auth.not_that_agent(principal, found)
    return found


def actor(exchange: Exchange, limits: Limits, *, named: str | None = None, default: str = "anonymous") -> str:
    """Who acts: as the body says, else as the header says. Not everything needs a name, but a bound key has some."""
    found = _speaker(exchange, limits, named)
    principal = exchange.principal
    if principal.bound:
        if found is None:
            raise auth.agent_missing(principal)
        if not principal.may_act_as(found):
            raise auth.not_that_agent(principal, found)
    return found or default


def attempt(exchange: Exchange, limits: Limits) -> str | None:
    """The attempt that the request belongs to. An empty one is refused: its sender believes to be protected."""
    key = exchange.headers.get(b"idempotency-key")
    if key is None:
        return None
    if not key:
        raise problems.invalid((["idempotency-key"], "must not be empty", "value"), part="header")
    return header_text(exchange, b"idempotency-key", limits)


def expected_version(exchange: Exchange) -> int | None:
    """What If-Match names: a version, or None for `*`."""
    raw = exchange.headers.get(b"if-match")
    if raw is None:
        hint = "send the version that you read, or * to write without a comparison"
        raise problems.Refused(400, problems.plain("if_match_required", "If-Match header required", hint=hint))
    text = raw.strip().strip(b'"')
    if text == b"*":
        return None
    if text.isdigit() and len(text) < 19:
        return int(text)
    raise problems.Refused(400, problems.plain("bad_request", "If-Match: must be a whole number or *"))


def version_if_given(exchange: Exchange) -> int | None:
    """The same where a comparison is the caller's choice."""
    return expected_version(exchange) if b"if-match" in exchange.headers else None


def lease_token(exchange: Exchange, named: int | None) -> int | None:
    """The token that a write names: the body's, else the header's, which is refused if it is malformed, even unused."""
    raw = exchange.headers.get(b"x-lease-token")
    if not raw:
        return named
    if not (raw.isdigit() and len(raw) < 19):
        raise problems.invalid((["x-lease-token"], "must be a whole number", "value"), part="header")
    return int(raw) if named is None else named
