"""How often something is tried again, and after which delay. Pure: chance comes in as an argument."""

import math
from collections.abc import Collection
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

ATTEMPTS_MAX: Final = 1_000
DELAY_S_MAX: Final = 86_400.0

Backoff = Literal["constant", "linear", "exponential"]


class Retry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """After the first failure `base_delay_seconds`; then the same again, so much more each time, or twice as much."""

    max_attempts: Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)] = 3
    backoff: Backoff = "exponential"
    base_delay_seconds: Annotated[float, Meta(ge=0, le=DELAY_S_MAX)] = 1.0
    max_delay_seconds: Annotated[float, Meta(ge=0, le=DELAY_S_MAX)] = 300.0
    # The share of a delay that chance adds or takes away, so that many who failed together do not come back together.
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0
    # The names of errors worth another try; without any, all are.
    retryable_errors: tuple[str, ...] = ()
    # Who is to do it when this agent has used up its attempts; without one, a person is asked.
    fallback_agent: str | None = None

    def __post_init__(self) -> None:
        """What is read is checked by its types; what a program makes is checked here."""
        if not isinstance(self.max_attempts, int) or not 1 <= self.max_attempts <= ATTEMPTS_MAX:
            raise ValueError(f"max_attempts must be from 1 to {ATTEMPTS_MAX}, not {self.max_attempts!r}")
        if self.backoff not in get_args(Backoff):
            raise ValueError(f"backoff must be one of {', '.join(get_args(Backoff))}, not {self.backoff!r}")
        for name, most in (("base_delay_seconds", DELAY_S_MAX), ("max_delay_seconds", DELAY_S_MAX), ("jitter", 1.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= most:
                raise ValueError(f"{name} must be from 0 to {most:g}, not {value!r}")
        if isinstance(self.retryable_errors, str):
            raise ValueError(f"retryable_errors are several names: write [{self.retryable_errors!r}]")  # noqa: TRY004  # as the others

    def delay_s(self, failures: int, *, chance: float) -> float:
        """How long to wait after so many failures; `chance` is from 0 to 1. Chance adds nothing to the longest."""
        longest_s = self.max_delay_seconds / (1 + self.jitter)
        return min(self._plain_s(failures), longest_s) * (1 + self.jitter * (2 * chance - 1))

    def _plain_s(self, failures: int) -> float:
        if self.backoff == "constant":
            return self.base_delay_seconds
        if self.backoff == "linear":
            return self.base_delay_seconds * failures
        # No more doublings than a float can take: the bound on the delay is far below.
        return float(self.base_delay_seconds * 2 ** min(failures - 1, 64))

    def allows(self, failures: int, errors: Collection[str]) -> bool:
        """Whether one that failed so often, for the last time with an error of these names, is worth another try."""
        return failures < self.max_attempts and (
            not self.retryable_errors or any(name in self.retryable_errors for name in errors)
        )
