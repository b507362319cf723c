"""The SDK: two clients with the same methods, over one core.

Promised: a lease's view of itself ends before the server can grant the scope to another, counted on a clock that never
steps from when the request was sent; work under a kept lease is told to stop before that; a repeated request never
acts twice. Not promised: that work which ignores its cancellation, at a resource that checks no token, does no harm.
The authority on a lease is the server; where it is silent, the holder's own clock is. What fails without having
happened is tried again while the caller's patience lasts; what may have happened only under the same attempt.

`calls` (one exchange as a value) -> `flows` (procedures) -> `drivers` (sync and async); the `keeper` renews.
"""

from openintent.client.aio import AsyncOpenIntentClient
from openintent.client.client import OpenIntentClient

__all__ = ["AsyncOpenIntentClient", "OpenIntentClient"]
