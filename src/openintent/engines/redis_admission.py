"""Which Redis may be used: one that can be written, keeps what it was given, and has nothing of others in the way."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from openintent.engines.redis_place import Place
from openintent.engines.redis_scripts import FORMAT
from openintent.errors import EngineUnavailable

SERVER_VERSION_MIN: Final = (6, 2)
# Without any one of these a commit is acknowledged before it is on the disk.
SAFE: Final = {b"appendonly": b"yes", b"appendfsync": b"always", b"no-appendfsync-on-rewrite": b"no"}
# One by one: for a pattern the server looks at all that it has, and takes fifty times as long.
GET_SETTINGS: Final = tuple(("CONFIG", "GET", name) for name in SAFE)
FAILOVER: Final = "when a replica takes over, commits that were acknowledged may be lost"


def info_of(place: Place, told: bytes | Exception) -> dict[str, str]:
    if isinstance(told, Exception):
        raise _refused(place, f"does not answer INFO, which must be allowed: {told}")
    return dict(line.split(":", 1) for line in told.decode().splitlines() if ":" in line)


def require_sound(place: Place, info: Mapping[str, str]) -> None:
    """Refuse a server that cannot be written, or would throw away what it was given."""
    version = info.get("redis_version", "of no version")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < SERVER_VERSION_MIN:
        oldest = ".".join(map(str, SERVER_VERSION_MIN))
        raise _refused(place, f"is Redis {version}, and {oldest} is the oldest that serves")
    if info.get("role") != "master":
        raise _refused(place, "is a replica: the engine must be the primary")
    if info.get("loading", "0") != "0":
        raise _refused(place, "still reads its files; try again when it has")
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory", "0") != "0" and policy != "noeviction":
        raise _refused(place, f"is set to maxmemory-policy={policy}, so that keys would vanish; set it to noeviction")


def notice_of(place: Place, settings: Sequence[Any]) -> str:
    """What an operator should read, unless the server loses commits and that was not allowed."""
    hidden = any(isinstance(setting, Exception) for setting in settings)
    weakness = "" if hidden else unsafe(settings)
    if hidden and place.durability == "full":
        told = "does not show its settings: if appendonly=yes and appendfsync=always, say so by ?durability=trust"
        raise _refused(place, f"{told}; else allow lost commits: ?durability=weak")
    if weakness and place.durability != "weak":
        raise _refused(place, f"is set to {weakness}, which loses commits; change it, or allow that: ?durability=weak")
    if weakness:
        return f"{place.name} is set to {weakness}: a crash may lose commits; {FAILOVER}"
    if hidden:
        return f"{place.name} does not show whether it syncs every write; {FAILOVER}"
    return f"{place.name}: {FAILOVER}"


def unsafe(settings: Sequence[Any]) -> str:
    """Which of the settings lose commits, if any; what cannot be read is not safe."""
    found = dict(setting for setting in settings if setting and not isinstance(setting, Exception))
    wrong = [(name, found.get(name, b"?")) for name, value in SAFE.items() if found.get(name) != value]
    return " and ".join(f"{name.decode()}={value.decode()}" for name, value in wrong)


def require_ours(place: Place, version: bytes | None, count: int) -> None:
    """By the version that the head names, and how many of our keys there are."""
    if version is None and count:
        raise _refused(place, f"has keys {{{place.prefix}}}:* without a head of ours; name others with ?prefix=")
    if version is not None and version != b"%d" % FORMAT:
        told = f"(format {version.decode(errors='replace')}, this one knows {FORMAT})"
        raise _refused(place, f"has keys that were written by a newer openintent {told}")


def _refused(place: Place, why: str) -> EngineUnavailable:
    return EngineUnavailable(f"{place.name} {why}")
