"""What one part came to."""

from typing import Any

import msgspec


class Outcome(msgspec.Struct):
    name: str
    command: str
    seconds: float = 0.0
    code: int = 0
    summary: str = ""
    figures: list[dict[str, Any]] = []
    output: str = ""

    @property
    def holds(self) -> bool:
        return self.code == 0
