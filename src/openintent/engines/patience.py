"""How long an engine waits for an answer of its server: what `?timeout=` in its URL may say."""

from contextlib import suppress
from typing import Final

TIMEOUT_S: Final = 5.0  # for any request
TIMEOUT_S_MIN: Final = 0.1
TIMEOUT_S_MAX: Final = 60.0


def timeout_s_of(text: str | None) -> float:
    if text is None:
        return TIMEOUT_S
    with suppress(ValueError):
        if TIMEOUT_S_MIN <= float(text) <= TIMEOUT_S_MAX:
            return float(text)
    raise ValueError(f"timeout={text!r} is not a number of seconds from {TIMEOUT_S_MIN} to {TIMEOUT_S_MAX:.0f}")
