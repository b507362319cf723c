"""Which requests are refused first when the server is behind, and which never.

A refused renewal lets a healthy lease lapse, and its holder comes back to acquire a new one: refusing it makes the load
grow. A refused acquire costs nobody what they have. So whatever begins something goes first, and whatever keeps or ends
what is held is always served.
"""

from enum import Enum, auto
from typing import Final


class Urgency(Enum):
    NEW = auto()  # begins something: the first to be refused
    USUAL = auto()
    VITAL = auto()  # keeps or ends what is held, or tells how we are: never refused


# By the method and the end of the pattern: the whole policy, to be read at once.
NEW: Final = (
    ("POST", "leases"),
    ("POST", "coordinators"),
    ("POST", "intents"),
    ("POST", "children"),
    ("POST", "portfolios"),
)
VITAL: Final = (
    ("POST", "heartbeat"),
    ("PATCH", "leases/{}"),
    ("DELETE", "leases/{}"),
    ("DELETE", "leases"),  # gives up an attempt: it may be holding something
    ("PATCH", "coordinators/{}"),
    ("DELETE", "coordinators/{}"),
    ("DELETE", "coordinators"),
    ("POST", "leases/{}/progress"),
    ("POST", "leases/{}/revoke"),
    ("GET", "livez"),  # a server that seems dead is restarted, and that helps nobody
    ("GET", "readyz"),
    ("GET", "metrics"),  # for whoever is to find out why it is behind
)


def urgency(method: str, pattern: str) -> Urgency:
    if any(_fits(rule, method, pattern) for rule in VITAL):
        return Urgency.VITAL
    return Urgency.NEW if any(_fits(rule, method, pattern) for rule in NEW) else Urgency.USUAL


def _fits(rule: tuple[str, str], method: str, pattern: str) -> bool:
    return rule[0] == method and f"/{pattern}".endswith(f"/{rule[1]}")
