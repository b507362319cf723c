"""What an agent is told about itself, by its decorator."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from openintent.client import spelling
from openintent.retrying import Retry

INSTANCE_MARK: Final = "~"  # between the name of an agent and the part that tells its instances apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    name: str
    role: str | None = None
    capabilities: Sequence[str] = ()
    capacity: int = 1
    lease_ttl: float = 60.0
    auto_heartbeat: bool = True
    complete: bool = False
    retry: Retry = field(default_factory=Retry)
    drain_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    poll_seconds: float = 15.0
    instance: str | None = None
    intents: Sequence[str] = ()
    portfolios: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | Sequence[str] | None = None
    api_key: str | None = None
    # Of a coordinator: what it leads.
    portfolio_id: str | None = None
    intent_id: str | None = None

    def __post_init__(self) -> None:
        if not self.name or INSTANCE_MARK in self.name:
            raise ValueError(f"an agent needs a name without {INSTANCE_MARK!r}, not {self.name!r}")
        spelling.agent_id_of(self.new_instance_id())
        if isinstance(self.capacity, bool) or not isinstance(self.capacity, int) or self.capacity < 1:
            raise ValueError(f"capacity must be a whole number from 1 on, not {self.capacity!r}")
        for name in ("lease_ttl", "drain_seconds", "heartbeat_seconds", "poll_seconds"):
            _check_seconds(name, getattr(self, name))
        for name in ("capabilities", "intents", "portfolios"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} are several: write [{getattr(self, name)!r}]")  # noqa: TRY004  # as the others
        if not isinstance(self.retry, Retry):
            raise ValueError(f"retry must be Retry(...), not {self.retry!r}")  # noqa: TRY004  # as the others
        if self.portfolio_id is not None and self.intent_id is not None:
            raise ValueError("a coordinator leads a portfolio or an intent: name one of them")

    @property
    def names(self) -> tuple[str, ...]:
        """What its assignments may be addressed to."""
        return (self.name,) if self.role in (None, self.name) else (self.name, str(self.role))

    @property
    def max_hold_seconds(self) -> float | None:
        """Without heartbeats a lease has its ttl and no more; the work is still stopped in time."""
        return None if self.auto_heartbeat else self.lease_ttl

    def new_instance_id(self) -> str:
        return f"{self.name}{INSTANCE_MARK}{self.instance or os.urandom(3).hex()}"


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a number of seconds above 0, not {value!r}")
