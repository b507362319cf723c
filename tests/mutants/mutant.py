"""A deliberate bug, and who is to find it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sim:
    """The simulator, from its first seed on."""

    servers: int = 1  # that share an engine

    @property
    def layer(self) -> str:
        return "sim"


@dataclass(frozen=True, slots=True)
class Picked:
    """Some tests of the suite, by file and name. The fewer, the sooner they are done."""

    names: tuple[str, ...]

    @property
    def layer(self) -> str:
        return self.names[0].split("/")[1]


Check = Sim | Picked

SIM: Final = Sim()
SIM_OF_SEVERAL: Final = Sim(servers=3)


def tests(*names: str) -> Picked:
    """Each as `folder/file.py::test`, without what stands above all of them."""
    return Picked(tuple(f"tests/{name}" for name in names))


@dataclass(frozen=True, slots=True)
class Edit:
    """One place of the package. The old text must be there exactly once: else the bug has lost its place."""

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        found = text.count(self.old)
        if found != 1:
            raise LookupError(f"{self.file} has this {found} times, and should once: {self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` says what the product does that it must not. The checks are asked in order until one of them turns red."""

    name: str
    edits: tuple[Edit, ...]
    checks: tuple[Check, ...]
    number: int | None = None  # where the list of bugs that every build must find has it
    twin: str = ""  # where it was found in the wild
