"""What one part came to, and where that is kept until the report is made."""

from pathlib import Path
from typing import Any

import msgspec

KEPT = Path(__file__).parent / "build"


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

    def keep(self) -> None:
        KEPT.mkdir(exist_ok=True)
        _place(self.name).write_bytes(msgspec.json.encode(self))

    @classmethod
    def kept(cls, name: str) -> "Outcome | None":
        """The newest of this part, if it was ever run here."""
        return msgspec.json.decode(_place(name).read_bytes(), type=cls) if _place(name).exists() else None


def _place(name: str) -> Path:
    return KEPT / f"{name.replace(' ', '-')}.json"
