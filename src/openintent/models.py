"""What the clients return, under the name that OpenIntent's documents use: `from openintent.models import ...`."""

from openintent.client.lease import Lease
from openintent.client.values import Event, Heartbeat, Intent, LeaseVerdict, Released, TokenCheck, Waiter

__all__ = ["Event", "Heartbeat", "Intent", "Lease", "LeaseVerdict", "Released", "TokenCheck", "Waiter"]
