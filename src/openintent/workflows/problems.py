"""What is wrong with a workflow file, and where."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

# Nobody reads more, and a file of nothing but faults must not grow tenfold in what is said of it.
PROBLEMS_MAX: Final = 200
# Beyond this many names, or in longer ones, a likely one is not looked for: it would take longer than all the checks.
CANDIDATES_MAX: Final = 200
WORD_CHARS_MAX: Final = 64
SHOWN_MAX: Final = 8

Severity = Literal["error", "warning"]


class Place(NamedTuple):
    """As editors count: the first character of a file is at line 1, column 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


TOP: Final = Place(1, 1)


@dataclass(frozen=True, slots=True)
class Problem:
    line: int
    column: int
    path: str  # `workflow.fetch.retry.backoff`; empty for the file as a whole
    message: str
    hint: str | None = None
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.severity}: {self.message}"


@dataclass(slots=True)
class Problems:
    """Collects all that is found, up to a bound; whether there is an error it knows beyond that, too."""

    found: list[Problem] = field(default_factory=list)
    left_out: int = 0
    has_errors: bool = False

    def error(self, place: Place, path: str, message: str, hint: str | None = None) -> None:
        self.add(Problem(*place, path, message, hint))

    def warn(self, place: Place, path: str, message: str, hint: str | None = None) -> None:
        self.add(Problem(*place, path, message, hint, "warning"))

    def add(self, problem: Problem) -> None:
        self.has_errors = self.has_errors or problem.severity == "error"
        if len(self.found) < PROBLEMS_MAX:
            self.found.append(problem)
        else:
            self.left_out += 1

    def in_order(self) -> list[Problem]:
        """From top to bottom, as whoever mends a file goes through it."""
        ordered = sorted(self.found, key=lambda problem: (problem.line, problem.column))
        if not self.left_out:
            return ordered
        more = f"there is more to say than these {PROBLEMS_MAX} things; it comes when they are mended"
        end = ordered[-1]
        return [*ordered, Problem(end.line, end.column, "", more, None, "error" if self.has_errors else "warning")]


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint: the likely one if there is one, else what there is to choose from."""
    names = list(known)
    close = likely(word, names)
    if close is not None:
        return f"did you mean {close}?"
    if not names:
        return None
    more = ", ..." if len(names) > SHOWN_MAX else ""
    return f"there is {', '.join(names[:SHOWN_MAX])}{more}"


def likely(word: str, known: Iterable[str]) -> str | None:
    names = list(known)
    if len(word) > WORD_CHARS_MAX or len(names) > CANDIDATES_MAX:
        return None
    folded = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None
