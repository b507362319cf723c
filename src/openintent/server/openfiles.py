"""Room for as many connections as the settings allow, as far as the system grants it.

Each connection is an open file. Where there is no room for one more file the engine cannot write either, and a commit
that fails ends the term: so the bounds on connections must be reached before the system's own.
"""

import logging
from typing import Final

from msgspec.structs import replace

from openintent.server.settings import Settings

log = logging.getLogger("openintent.server")

FILES_BESIDES: Final = 128  # those of the engine, of the interpreter, and some to spare


def make_room(settings: Settings) -> Settings:
    """Raise the limit of this process if it is too low for the settings; settings that fit if that is not allowed."""
    try:
        import resource  # noqa: PLC0415  # Windows has none, and no such limit either
    except ImportError:
        return settings
    wanted = settings.connections_max + settings.connections_reserved + FILES_BESIDES
    limit, limit_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _enough(limit, wanted):
        return settings
    limit = wanted if _enough(limit_max, wanted) else limit_max
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit_max))
    return settings if limit == wanted else _fitting(settings, limit)


def _enough(limit: int, wanted: int) -> bool:
    return limit < 0 or limit >= wanted  # negative: there is none


def _fitting(settings: Settings, limit: int) -> Settings:
    reserved = min(settings.connections_reserved, limit // 8)
    most = max(1, limit - reserved - FILES_BESIDES)
    log.warning("connections limited connections=%d open_files=%d", most, limit)
    return replace(
        settings,
        connections_max=most,
        connections_per_address_max=min(most, settings.connections_per_address_max),
        connections_reserved=reserved,
    )
