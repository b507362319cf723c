"""What the doctor thinks of the facts. Each check is a function of them, and asks nothing else.

To add one: write it, and put it into `CHECKS`. What it needs to know goes into `doctor_facts.Facts`.
"""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from openintent.cli.backup import size
from openintent.cli.doctor_disk import Database, Header
from openintent.cli.doctor_engine import promised, reign
from openintent.cli.doctor_facts import Facts
from openintent.cli.doctor_net import Neighbour
from openintent.cli.show import seconds
from openintent.engines import without_secret
from openintent.engines.sqlite_file import APPLICATION_ID, SCHEMA_VERSION
from openintent.server.openfiles import FILES_BESIDES
from openintent.server.settings import ENV_PREFIX, Settings

Level = Literal["ok", "note", "problem"]

PYTHON_MIN: Final = (3, 11)

FREE_BYTES_LOW: Final = 1 << 30
FREE_BYTES_MIN: Final = 100 << 20
SYNC_MS_SLOW: Final = 100.0
DATE_S_OFF: Final = 5.0
YEARS: Final = range(2025, 2100)

# On these, locks and syncs go over a network or through a program that may not mean what it says.
NETWORK: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "glusterfs", "gfs2", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "prl_fs", "smb3", "smbfs", "vboxsf", "vmhgfs"}
    | {"fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse"}
)
FORGETFUL: Final = frozenset({"ramfs", "tmpfs"})
LAYERED: Final = frozenset({"aufs", "overlay"})

# What the environment may hold besides the settings: the first for commands and clients, the rest from `hold`.
VARIABLES: Final = ("URL", "API_KEY", "AGENT_ID", "CONFIG", "TOKEN", "LEASE_ID", "SCOPE", "SPACE")


@dataclass(frozen=True, slots=True)
class Finding:
    about: str
    level: Level
    message: str
    remedy: str | None = None  # what to do


Check = Callable[[Facts], Iterator[Finding]]


def python(facts: Facts) -> Iterator[Finding]:
    version = ".".join(map(str, facts.python))
    if facts.python < PYTHON_MIN:
        needed = ".".join(map(str, PYTHON_MIN))
        yield Finding("python", "problem", f"Python {version} is too old", f"use Python {needed} or newer")
    elif facts.plain:
        message = f"Python {version} was compiled without optimizations: a server on it does about a tenth less"
        yield Finding("python", "note", message, "use one of a distribution, or compile with --enable-optimizations")
    else:
        yield Finding("python", "ok", f"Python {version}")
    if facts.optimized:
        message = "Python runs without assertions: some mistakes would not be noticed"
        yield Finding("python", "problem", message, "leave out -O, and unset PYTHONOPTIMIZE")


def package(facts: Facts) -> Iterator[Finding]:
    found = facts.package
    remedy = "pip uninstall openintent; then pip install --force-reinstall openintent-leases"
    if not found.is_ours:
        message = f"`import openintent` finds another program in {found.folder}"
        yield Finding("package", "problem", message, remedy)
    elif found.public is not None:
        message = (
            f"the package `openintent` {found.public} is installed as well, with the same import name; "
            f"ours is the one that is found, in {found.folder}"
        )
        # In one folder each has overwritten files of the other; elsewhere the order of the search path decides.
        level: Level = "problem" if found.public_folder == found.folder else "note"
        yield Finding("package", level, message, remedy)
    else:
        yield Finding("package", "ok", f"openintent-leases {found.version} in {found.folder}")


def command(facts: Facts) -> Iterator[Finding]:
    found = facts.package
    if found.command is None:
        remedy = f"add {found.scripts} to PATH, or write: python -m openintent.cli"
        yield Finding("command", "note", "the shell finds no command `openintent`", remedy)
    elif found.command.rpartition("/")[0] != found.scripts:
        message = f"`openintent` is {found.command}, which is of another Python than this one"
        yield Finding("command", "note", message, f"put {found.scripts} first in PATH, if this one is meant")
    else:
        yield Finding("command", "ok", f"`openintent` is {found.command}")


def settings(facts: Facts) -> Iterator[Finding]:
    for fault in facts.faults:
        yield Finding(
            "settings",
            "problem",
            fault,
            "correct it; what follows is about the options of this command, and the defaults",
        )
    if not facts.faults:
        source = f" from {facts.config}" if facts.config else ""
        chosen = facts.settings
        yield Finding(
            "settings", "ok", f"valid{source}: {chosen.host} port {chosen.port}, {without_secret(chosen.engine)}"
        )


def environment(facts: Facts) -> Iterator[Finding]:
    known = {*VARIABLES, *(field.name.upper() for field in msgspec.structs.fields(Settings) if field.name != "limits")}
    given = sorted(name.removeprefix(ENV_PREFIX) for name in facts.env if name.startswith(ENV_PREFIX))
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            remedy = f"did you mean {ENV_PREFIX}{close[0]}?" if close else "unset it, if it was meant for us"
            yield Finding("environment", "note", f"{ENV_PREFIX}{name} is set, and nobody reads it", remedy)
    if known.issuperset(given):
        names = ", ".join(ENV_PREFIX + name for name in given)
        yield Finding("environment", "ok", f"sets {names}" if names else "sets nothing of ours")


def port(facts: Facts) -> Iterator[Finding]:
    found = facts.here
    if found is None:
        yield Finding("port", "ok", "the server takes any free port")
    elif found.who == "nobody":
        yield Finding("port", "ok", f"{found.url} is free")
    elif found.who == "unusable":
        yield Finding("port", "problem", f"{found.url} cannot be had: {found.reason}", "choose another with --port")
    elif found.who == "other":
        message = f"another program answers at {found.url}: {found.reason}"
        yield Finding("port", "problem", message, "stop it, or choose another port: openintent serve --port 8001")
    else:
        yield from _server("port", found, facts)


def server(facts: Facts) -> Iterator[Finding]:
    """Those that commands and clients would ask, if any are named."""
    for found in facts.there:
        if facts.here is None or found.url != facts.here.url:
            yield from _there(found, facts)


def _there(found: Neighbour, facts: Facts) -> Iterator[Finding]:
    if found.who == "ours":
        yield from _server("server", found, facts)
    elif found.who == "nobody":
        message = f"nobody answers at OPENINTENT_URL={found.url}: {found.reason}"
        yield Finding("server", "problem", message, "start the server there, or unset OPENINTENT_URL")
    else:
        message = f"OPENINTENT_URL={found.url} leads to no server of ours: {found.reason}"
        yield Finding("server", "problem", message, "correct OPENINTENT_URL, or unset it")


def _server(about: str, found: Neighbour, facts: Facts) -> Iterator[Finding]:
    what = f"openintent-leases {found.version} answers at {found.url}"
    if not found.ready:
        yield Finding(about, "problem", f"{what}, and is not ready", "its log says why: look at what it prints")
    elif found.version != facts.package.version:
        remedy = "restart it, if it was updated meanwhile"
        yield Finding(about, "note", f"{what}, ready, term {found.term}; this is {facts.package.version}", remedy)
    else:
        yield Finding(about, "ok", f"{what}, ready, term {found.term}")


def engine(facts: Facts) -> Iterator[Finding]:
    """One on a server: what it is and promises, then who leads."""
    found = facts.served
    if found is None:
        return
    if found.trouble is not None:
        yield Finding("engine", "problem", found.trouble, found.remedy)
        return
    yield Finding("engine", "ok", f"{found.software} at {found.place}: {promised(found)}")
    if found.notice is not None:
        yield Finding("engine", "note", found.notice, "docs/engines says what that means")
    stood = found.head.term > 0 and not found.head.farewell and not found.moved
    advice = "if it was killed, another takes over after the leader ttl; start one, if none is running"
    yield Finding("leader", "note" if stood else "ok", reign(found), advice if stood else None)


def database(facts: Facts) -> Iterator[Finding]:
    found = facts.database
    if found is None and facts.served is not None:
        return
    if found is None:
        yield _without_file(facts.settings.engine)
    elif (trouble := _trouble(found)) is not None:
        yield Finding("database", "problem", *trouble)
    elif not found.exists:
        yield Finding("database", "ok", f"{found.path} does not exist yet; the server makes it")
    else:
        version = f", format {found.header.format}" if found.header else ""
        yield Finding("database", "ok", f"{found.path}, {size(found.bytes)}{version}")


def _without_file(engine: str) -> Finding:
    if engine.startswith("memory:"):
        message = "the engine is memory: when the server ends, all is gone"
        return Finding("database", "note", message, "to keep it: openintent serve --engine sqlite:///openintent.db")
    return Finding("database", "ok", f"the engine {without_secret(engine).partition(':')[0]} keeps no file here")


def _trouble(found: Database) -> tuple[str, str] | None:
    """What is wrong and what to do: of all that can be wrong with a file, the first."""
    path = found.path
    rights = "run as its owner, or give the rights with chown and chmod"
    possible = {
        (f"the folder {path.parent} does not exist", f"mkdir -p {path.parent}"): not found.folder_exists,
        (f"{path} is not a file", "name another with --engine"): not found.is_file,
        (f"{path.parent} cannot be written to", rights): not found.folder_writable,
        (f"{path} cannot be read", rights): found.exists and not found.readable,
        (f"{path} cannot be written to", rights): found.exists and not found.writable,
    }
    first = next((said for said, wrong in possible.items() if wrong), None)
    return first if first is not None or found.header is None else _trouble_inside(path, found.header)


def _trouble_inside(path: Path, header: Header) -> tuple[str, str] | None:
    if not header.is_sqlite:
        return f"{path} is not a database", "name another with --engine, or bring back a copy: openintent restore"
    if header.application != APPLICATION_ID:
        return f"{path} is a database of another program", "name another with --engine"
    if header.format > SCHEMA_VERSION:
        formats = f"(format {header.format}, this one knows {SCHEMA_VERSION})"
        return f"{path} was written by a newer openintent {formats}", "update openintent-leases"
    return None


def lock(facts: Facts) -> Iterator[Finding]:
    found = facts.database
    if found is None or not found.folder_exists:
        return
    if found.lock_error is not None:
        remedy = "run as its owner, or give the rights with chown and chmod"
        yield Finding("lock", "problem", f"{found.path}.lock cannot be read: {found.lock_error}", remedy)
    elif found.lock is not None and found.lock.damaged:
        message = f"{found.lock.path} is damaged"
        yield Finding("lock", "note", message, "nothing: the next server skips 100,000 tokens and writes it anew")
    elif found.lock is not None and found.lock.in_use:
        entry = found.lock.entry
        where = f" at {entry.address}" if entry.address else ""
        yield Finding("lock", "ok", f"the database is in use by the server with pid {entry.pid}{where}")
    elif found.lock is None and found.exists:
        message = "there is no lock file beside the database: if it is a copy put here by hand, tokens may come twice"
        yield Finding("lock", "note", message, "bring a copy back with `openintent restore`, which sees to that")
    else:
        yield Finding("lock", "ok", "no server has the database open")


def filesystem(facts: Facts) -> Iterator[Finding]:
    found = facts.database
    if found is None or found.filesystem is None:
        return
    kind, folder = found.filesystem, found.path.parent
    local = "keep the database on a disk of this machine, with --engine"
    if kind in NETWORK:
        message = f"{folder} is on {kind}, over a network: its locks and syncs cannot be relied on"
        yield Finding("file system", "problem", message, local)
    elif kind in FORGETFUL:
        yield Finding("file system", "note", f"{folder} is on {kind}, in memory: a reboot loses it all", local)
    elif kind in LAYERED:
        message = f"{folder} is on {kind}: in a container, what is written there goes with the container"
        yield Finding("file system", "note", message, "keep the database on a volume")
    else:
        yield Finding("file system", "ok", f"{kind}")


def disk(facts: Facts) -> Iterator[Finding]:
    found = facts.database
    if found is None or found.free_bytes is None:
        return
    free = f"{size(found.free_bytes)} free"
    if found.free_bytes < FREE_BYTES_MIN:
        yield Finding("disk", "problem", f"only {free}: commits will fail soon", "make room")
    elif found.free_bytes < FREE_BYTES_LOW:
        yield Finding("disk", "note", f"only {free}", "make room before it is full: then every commit fails")
    else:
        yield Finding("disk", "ok", free)


def sync(facts: Facts) -> Iterator[Finding]:
    found = facts.database
    if found is None or (found.sync_ms is None and found.sync_error is None):
        return
    if found.sync_ms is None:
        message = f"nothing can be synced to {found.path.parent}: {found.sync_error}"
        yield Finding("sync", "problem", message, "look at the rights, and at the disk: dmesg")
    elif found.sync_ms > SYNC_MS_SLOW:
        message = f"a sync takes {found.sync_ms:.0f} ms, and every commit waits for one"
        yield Finding(
            "sync", "note", message, "keep the database on a faster disk, or see what else writes to this one"
        )
    else:
        yield Finding("sync", "ok", f"a small write is on the disk after {found.sync_ms:.2f} ms")


def clock(facts: Facts) -> Iterator[Finding]:
    found = facts.clock
    if not found.has_boot_clock or not found.went_on:
        message = "there is no clock that never steps and counts the time asleep"
        yield Finding("clock", "problem", message, "use a system with CLOCK_BOOTTIME: Linux 2.6.39 or newer, or macOS")
    else:
        yield Finding("clock", "ok", "the boot clock, by which all is decided, goes on")
    date = datetime.fromtimestamp(found.wall_s, UTC)
    if date.year not in YEARS:
        message = f"the wall clock says {date:%Y-%m-%d}; only the dates that are shown depend on it"
        yield Finding("date", "note", message, "set it, as with: timedatectl set-ntp true")


def date(facts: Facts) -> Iterator[Finding]:
    for found in (facts.here, *facts.there):
        if found is None or found.ahead_s is None:
            continue
        off = seconds(abs(found.ahead_s))
        if abs(found.ahead_s) > DATE_S_OFF:
            direction = "ahead of" if found.ahead_s > 0 else "behind"
            message = f"the server at {found.url} is {off} {direction} our wall clock; only dates depend on it"
            yield Finding("date", "note", message, "set both, as with: timedatectl set-ntp true")
        else:
            yield Finding("date", "ok", f"the server at {found.url} has the same date, within {off}")


def limits(facts: Facts) -> Iterator[Finding]:
    """Of open files. The server raises the limit for itself, as far as it may."""
    chosen, most = facts.settings, facts.files_max
    needed = chosen.connections_max + chosen.connections_reserved + FILES_BESIDES
    if most < 0 or most >= needed:
        yield Finding(
            "limits", "ok", f"{'any number of' if most < 0 else f'{most:,}'} open files, {needed:,} are needed"
        )
        return
    message = (
        f"{most:,} open files are allowed, which is too few for the {chosen.connections_max:,} connections that are "
        f"set: the server will take fewer"
    )
    yield Finding("limits", "note", message, f"for more, as the administrator, before it starts: ulimit -Hn {needed}")


def keys(facts: Facts) -> Iterator[Finding]:
    """The dates of keys are the wall clock's, as they are for the server."""
    found = facts.keys
    if found is None:
        yield Finding("keys", "ok", "none: only this machine is served, and everybody on it is trusted")
    elif isinstance(found, str):
        yield Finding("keys", "problem", found, "a server does not start with keys that it cannot rely on")
    else:
        now = datetime.fromtimestamp(facts.clock.wall_s, UTC)
        good = sum(key.state(now) == "active" for key in found)
        advice = None if good else "nobody is let in; make one with: openintent keys add NAME"
        yield Finding("keys", "ok" if good else "problem", f"{good} good, {len(found) - good} ended", advice)


CHECKS: Final[tuple[Check, ...]] = (
    python,
    package,
    command,
    settings,
    environment,
    port,
    server,
    engine,
    database,
    lock,
    filesystem,
    disk,
    sync,
    clock,
    date,
    keys,
    limits,
)


def examine(facts: Facts) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(facts)]
