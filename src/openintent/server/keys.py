"""The keys of a server: who may come in, and as whom.

A key is `oi_<id>.<secret>`. Its secret is 256 random bits, which nobody can guess; so a single fast hash of it is
enough to know it again by, and only that is stored. The file has a line of JSON for each key; it is changed as a whole
or not at all, by one program at a time, and only its owner may read it.

Promised: a change of the file is in force within a second, without a restart, also on open connections. Once keys are
in force, they stay: a file that is gone or empty lets nobody in, a file that cannot be read leaves the keys as they
were. Not promised: that a request which has begun is broken off when its key is revoked; streams ask `KeyRing.stands`.
"""

import asyncio
import fcntl
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from openintent.clock import boot_s
from openintent.spaces import agent_name_of

log = logging.getLogger("openintent.server")

PREFIX: Final = "oi_"
SECRET_BYTES: Final = 32
KEYS_MAX: Final = 1_000
AGENTS_MAX: Final = 100
NAME_CHARS_MAX: Final = 128
AGENT_CHARS_MAX: Final = 512
FILE_BYTES_MAX: Final = 1_048_576  # a thousand keys with some names each
LOOK_S: Final = 0.25  # a second is promised
LOCK_S_MAX: Final = 5.0
LOCK_TRY_S: Final = 0.02

HEADER: Final = b"# Keys of an openintent server, without their secrets. Change them with: openintent keys\n"

State = Literal["active", "expired", "revoked"]
Date = Annotated[datetime, Meta(tz=True)]


class BadKeyFile(Exception):
    """The key file cannot be used; the message says why, and what to do."""


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A key as it is stored. A name is for all its instances. Without agents it may act as any; so may an operator."""

    id: Annotated[str, Meta(pattern="^[0-9a-z]{4,32}$")]
    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]  # of the secret
    operator: bool = False
    agents: Annotated[tuple[str, ...], Meta(max_length=AGENTS_MAX)] = ()  # names, or `prefix*`
    created: Date
    expires: Date | None = None
    revoked: Date | None = None

    def __post_init__(self) -> None:
        wrong = _name_problem(self.name) or next(filter(None, map(agent_problem, self.agents)), None)
        if wrong is None and self.operator and self.agents:
            wrong = "an operator may act as any agent: give either operator or agents"
        if wrong is not None:
            raise ValueError(wrong)

    def __repr__(self) -> str:
        return f"Key(id={self.id!r}, name={self.name!r})"

    def state(self, now: datetime) -> State:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"

    def ended(self, now: datetime) -> datetime | None:
        """When it stopped being good, if it has."""
        state = self.state(now)
        return None if state == "active" else self.revoked if state == "revoked" else self.expires


def _name_problem(name: str) -> str | None:
    return None if name.isprintable() and name.strip() else "a name has printable characters only"


def agent_problem(agent: str) -> str | None:
    """What is wrong with an agent that a key is to be bound to."""
    if not (1 <= len(agent) <= AGENT_CHARS_MAX and agent.isprintable()):
        return f"an agent has 1 to {AGENT_CHARS_MAX} printable characters"
    return f"{agent}: a * can only stand at the end" if "*" in agent[:-1] else None


def issued(name: str, *, key_id: str, secret: str, now: datetime, **rights: object) -> tuple[str, Key]:
    """A new key: what its bearer is given, and what is stored. `ValueError` if it cannot be one."""
    digest = sha256(secret.encode()).hexdigest()
    fields = {"id": key_id, "name": name, "sha256": digest, "created": now.replace(microsecond=0), **rights}
    try:
        return f"{PREFIX}{key_id}.{secret}", msgspec.convert(fields, Key)
    except msgspec.ValidationError as wrong:
        raise ValueError(str(wrong)) from None


class Principal:
    """Who a key stands for, and what that one may do."""

    __slots__ = ("_names", "_prefixes", "agents", "bound", "key_id", "name", "operator")

    def __init__(
        self, name: str, *, operator: bool = False, agents: tuple[str, ...] | None = None, key_id: bytes = b""
    ) -> None:
        self.name = name
        self.operator = operator
        self.agents = agents or ()
        self.bound = agents is not None  # to these agents, or to none at all
        self.key_id = key_id
        self._names = frozenset(self.agents)
        self._prefixes = tuple(each[:-1] for each in self.agents if each.endswith("*"))

    def __repr__(self) -> str:
        return f"Principal({self.name!r}, operator={self.operator}, bound={self.bound})"

    def may_act_as(self, agent: str) -> bool:
        if not self.bound or agent in self._names or agent.startswith(self._prefixes):
            return True
        return agent_name_of(agent) in self._names


NOBODY: Final = Principal("nobody", agents=())
DEV: Final = Principal("dev", operator=True)

# The file


def parse(raw: bytes) -> list[Key]:
    """The keys that are written there. `BadKeyFile` if anything else is: a key that is overlooked is a key lost."""
    keys: list[Key] = []
    for number, line in enumerate(raw.splitlines(), start=1):
        if line.strip() and not line.startswith(b"#"):
            try:
                keys.append(msgspec.json.decode(line, type=Key))
            except (msgspec.DecodeError, UnicodeDecodeError) as wrong:  # what they say does not quote the line
                raise BadKeyFile(f"line {number}: {wrong}") from None
    if len({key.id for key in keys}) != len(keys):
        raise BadKeyFile("two keys have one id")
    return keys


def rendered(keys: Sequence[Key]) -> bytes:
    return HEADER + b"".join(msgspec.json.encode(key) + b"\n" for key in keys)


def contents(path: Path) -> bytes | None:
    """What the file says; None if there is none. `BadKeyFile` if it cannot be read, or is not for its owner alone."""
    try:
        # Whoever puts a pipe there must not stop the server that looks at it.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise BadKeyFile(f"{path}: {failure.strerror}") from None
    try:
        _check_mode(path, os.fstat(fd).st_mode)
        raw = os.read(fd, FILE_BYTES_MAX + 1)
    except OSError as failure:
        raise BadKeyFile(f"{path}: {failure.strerror}") from None
    finally:
        os.close(fd)
    if len(raw) > FILE_BYTES_MAX:
        raise BadKeyFile(f"{path} has more than {FILE_BYTES_MAX} bytes")
    return raw


def _check_mode(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise BadKeyFile(f"{path} is not a file")
    if mode & 0o077:
        raise BadKeyFile(f"{path} can be read or changed by others than its owner: chmod 600 {path}")


def load(path: Path) -> list[Key] | None:
    """All the keys of a file; None if there is none."""
    raw = contents(path)
    try:
        return None if raw is None else parse(raw)
    except BadKeyFile as wrong:
        raise BadKeyFile(f"{path}: {wrong}") from None


@contextmanager
def changing(path: Path) -> Iterator[list[Key]]:
    """The keys, for the block to change: what it leaves in the list is stored, and nothing if it fails."""
    path = path.resolve()
    try:
        with _alone_in(path.parent):
            keys = load(path) or []
            yield keys
            _store(path, rendered(keys))
    except OSError as failure:
        raise BadKeyFile(f"{failure.filename or path}: {failure.strerror}") from None


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Among those who change keys. The file itself cannot be locked: each change puts another one in its place."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        give_up_at = boot_s() + LOCK_S_MAX
        while not _locked(fd):
            if boot_s() > give_up_at:
                raise BadKeyFile(f"another program has locked {folder}: try again when it is done")
            time.sleep(LOCK_TRY_S)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _store(path: Path, raw: bytes) -> None:
    if len(raw) > FILE_BYTES_MAX:
        raise BadKeyFile(f"{path} would have more than {FILE_BYTES_MAX} bytes: bind keys to fewer agents")
    fd, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # for its owner alone
    try:
        with open(fd, "wb") as file:  # noqa: PTH123  # it is a descriptor
            _give_to_owner(fd, path)
            file.write(raw)
            file.flush()
            os.fsync(fd)
        os.replace(partial, path)  # noqa: PTH105  # as made by tempfile
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)  # noqa: PTH108
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _give_to_owner(fd: int, path: Path) -> None:
    """What root writes must be for the one to read who runs the server."""
    if os.geteuid() == 0:
        owner = (path if path.exists() else path.parent).stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)


# The keys in force


def today() -> datetime:
    return datetime.now(UTC)


class KeyRing:
    """The keys of a file, looked at again and again. `in_force` from the moment that there is a file."""

    def __init__(self, path: Path, *, in_force: bool = False, now: Callable[[], datetime] = today) -> None:
        self.path = path
        self.in_force = in_force
        self._now = now
        self._raw: bytes | None = None
        self._keys: list[Key] = []
        self._trouble: str | None = None
        self._next_end: datetime | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._good: dict[bytes, tuple[bytes, Principal]] = {}
        self._ended: dict[bytes, tuple[bytes, State]] = {}
        self.edition = object()  # another one whenever somebody may be let in who was not before, or no longer
        self._stranger = os.urandom(SECRET_BYTES)  # compared with where there is no key, to take as long as if

    def find(self, shown: bytes) -> Principal | None:
        """Whom this key stands for, if it is good."""
        key_id, _, secret = shown.partition(b".")
        digest, principal = self._good.get(key_id) or (self._stranger, None)
        return principal if compare_digest(sha256(secret).digest(), digest) else None

    def end_of(self, shown: bytes) -> State | None:
        """What became of a key that was good once. Only its bearer is told."""
        key_id, _, secret = shown.partition(b".")
        digest, state = self._ended.get(key_id) or (self._stranger, None)
        return state if compare_digest(sha256(secret).digest(), digest) else None

    def stands(self, principal: Principal) -> bool:
        """Whether the key behind it is still good: for what goes on after the request was let in."""
        return principal.key_id in self._good

    # Looking

    def open(self) -> None:
        """The first look. `BadKeyFile` if there is a file that cannot be used."""
        self._take(contents(self.path))

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._turn)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        self.start()  # first, so that a failure below costs one look and not all
        self.look()

    def look(self) -> None:
        """Follow what has become of the file. It is read each time: it is small, and its date may not tell."""
        try:
            self._take(contents(self.path))
        except BadKeyFile as wrong:
            if self._trouble != str(wrong):
                log.error("key file refused, keys stay as they were reason=%s", wrong)  # noqa: TRY400  # our own words
            self._trouble = str(wrong)
            self.edition = object()
            self.in_force = True  # somebody wants keys: until they can be read, this is no open house
            self._let_expire()
        else:
            self._trouble = None

    def _take(self, raw: bytes | None) -> None:
        if raw != self._raw:
            self._keys = self._parsed(raw)
            self._raw = raw
            self._sort()
            self._tell()
        else:
            self._let_expire()

    def _let_expire(self) -> None:
        if self._next_end is not None and self._next_end <= self._now():
            self._sort()

    def _parsed(self, raw: bytes | None) -> list[Key]:
        try:
            return parse(raw or b"")
        except BadKeyFile as wrong:
            raise BadKeyFile(f"{self.path}: {wrong}") from None

    def _sort(self) -> None:
        self.in_force = self.in_force or self._raw is not None
        self.edition = object()
        now = self._now()
        states = {key: key.state(now) for key in self._keys}
        good = [key for key, state in states.items() if state == "active"]
        self._next_end = min((key.expires for key in good if key.expires is not None), default=None)
        self._good = {_id(key): (_digest(key), _principal(key)) for key in good}
        self._ended = {_id(key): (_digest(key), state) for key, state in states.items() if state != "active"}

    def _tell(self) -> None:
        if self._raw is None:
            log.error("key file gone, nobody is let in file=%s", self.path)
        elif not self._good:
            log.warning("no key is good, nobody is let in file=%s", self.path)
        else:
            log.info("keys read file=%s good=%d ended=%d", self.path, len(self._good), len(self._ended))


def _id(key: Key) -> bytes:
    return f"{PREFIX}{key.id}".encode()


def _principal(key: Key) -> Principal:
    return Principal(key.name, operator=key.operator, agents=key.agents or None, key_id=_id(key))


def _digest(key: Key) -> bytes:
    return bytes.fromhex(key.sha256)
