from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openintent.client.aio import AsyncOpenIntentClient
    from openintent.client.client import OpenIntentClient

__all__ = ["AsyncOpenIntentClient", "OpenIntentClient"]


def __getattr__(name: str) -> object:
    # Whoever wants one of them should not wait for the other, and with it for an event loop.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module("openintent.client.aio" if name == "AsyncOpenIntentClient" else "openintent.client.client")
    found = globals()[name] = getattr(home, name)
    return found
