"""A folder on a disk that a power cut may hit at any instant.

A journal lists what programs asked of the disk, in order. What was synced is there after a cut. Of what was not, any
part may be there: each write as a whole, in some of its sectors, or not at all; a file may have grown without the
bytes it grew by; a name that came or went may have done so or not, until the folder is synced. A write changes
nothing outside of its own bytes, not even in a sector that it shares: SQLite relies on that too.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, pairwise
from random import Random
from typing import Any, NamedTuple

SECTORS = (512, 4_096)


class Write(NamedTuple):
    file: int
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class Truncate(NamedTuple):
    file: int
    size: int


class Sync(NamedTuple):
    file: int


class Names(NamedTuple):
    """Names that come or go together: all of them or none."""

    changed: Mapping[str, int | None]


class SyncFolder(NamedTuple):
    pass


class Mark(NamedTuple):
    """No work for the disk: a note of what was true from this instant on."""

    note: Any


Step = Write | Truncate | Sync | Names | SyncFolder | Mark


class Image(NamedTuple):
    """What a cut left, by name."""

    files: Mapping[str, bytes]
    torn: bool = False  # some write is there in part


EMPTY = Image({})


class Journal:
    """What was asked of the disk, from the files that were there in the beginning."""

    def __init__(self, start: Image = EMPTY) -> None:
        self.start = start
        self.steps: list[Step] = []
        self.names = {name: number for number, name in enumerate(start.files)}  # as running programs see them
        self._numbers = count(len(self.names))
        self._open = True

    def add(self, step: Step) -> None:
        """Steps come from two threads; each is one `append`, which is in order by itself."""
        if self._open:
            self.steps.append(step)

    def mark(self, note: Any) -> None:
        self.add(Mark(note))

    def close(self) -> None:
        """The power is off: what programs do from now on is not seen by anybody."""
        self._open = False

    def create(self, name: str) -> int:
        number = next(self._numbers)
        self.rename({name: number})
        return number

    def rename(self, changed: Mapping[str, int | None]) -> None:
        self.names.update({name: number for name, number in changed.items() if number is not None})
        for name in [name for name, number in changed.items() if number is None]:
            del self.names[name]
        self.add(Names(dict(changed)))

    def cuts(self, instants: Iterable[int], rng: Random, *, fates: int = 1) -> Iterator[tuple[int, Image]]:
        """Images for each instant, given as the number of steps before it; in order, for the price of one reading."""
        disk = Disk(self.start)
        done = 0
        for instant in sorted(instants):
            for step in self.steps[done:instant]:
                disk.take(step)
            done = instant
            for _ in range(fates):
                yield instant, disk.after_cut(rng)

    def notes(self, kind: type) -> list[tuple[int, Any]]:
        """Every note of a kind, each with the number of steps up to it and with it."""
        steps = enumerate(self.steps, start=1)
        return [(at, step.note) for at, step in steps if isinstance(step, Mark) and isinstance(step.note, kind)]


class Disk:
    """What is there for sure, and what is still on its way."""

    def __init__(self, start: Image) -> None:
        self._names: dict[str, int] = {name: number for number, name in enumerate(start.files)}
        self._files = {number: File(content) for number, content in enumerate(start.files.values())}
        self._moves: list[Names] = []

    def take(self, step: Step) -> None:
        match step:
            case Write() | Truncate():
                self._file(step.file).pending.append(step)
            case Sync():
                self._file(step.file).settle()
            case Names():
                self._moves.append(step)
            case SyncFolder():
                self._names, self._moves = moved(self._names, self._moves), []

    def after_cut(self, rng: Random) -> Image:
        fate = Fate(rng)
        names = moved(self._names, fate.of_names(self._moves))
        # A file may have two names, and is the same under both.
        contents = {number: self._file(number).after(fate) for number in sorted(set(names.values()))}
        return Image({name: contents[number] for name, number in names.items()}, fate.tore)

    def _file(self, number: int) -> "File":
        return self._files.setdefault(number, File())


class File:
    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.pending: list[Write | Truncate] = []

    def settle(self) -> None:
        for step in self.pending:
            change(self.content, step, b"\0")
        self.pending = []

    def after(self, fate: "Fate") -> bytes:
        content = bytearray(self.content)
        for step in self.pending:
            for part in fate.of(step):
                change(content, part, fate.filler)
        if fate.grows:
            ends = [step.end for step in self.pending if isinstance(step, Write)]
            resize(content, max([len(content), *ends]), fate.filler)
        return bytes(content)


class Fate:
    """How one cut treats what is on its way: from losing all of it to keeping all of it."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._kept = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        self._torn = rng.choice((0.0, 0.5, 1.0))
        self._in_order = rng.random() < 0.5
        self._sector = rng.choice(SECTORS)
        self.grows = rng.random() < 0.5
        self.filler = rng.choice((b"\0", rng.randbytes(61)))  # what was on the disk before may be anything
        self.tore = False

    def of(self, step: Write | Truncate) -> list[Write | Truncate]:
        if isinstance(step, Truncate) or self._rng.random() >= self._torn:
            return [step] if self._keeps() else []
        parts = list(sectors(step, self._sector))
        kept: list[Write | Truncate] = [part for part in parts if self._rng.random() < 0.5]
        self.tore = self.tore or 0 < len(kept) < len(parts)
        return kept

    def of_names(self, moves: list[Names]) -> list[Names]:
        """File systems with a journal keep the order; not all have one."""
        if self._in_order:
            return moves[: self._rng.randint(0, len(moves))]
        return [move for move in moves if self._rng.random() < 0.5]

    def _keeps(self) -> bool:
        return self._rng.random() < self._kept


def moved(names: Mapping[str, int], moves: Iterable[Names]) -> dict[str, int]:
    found: dict[str, int | None] = dict(names)
    for move in moves:
        found.update(move.changed)
    return {name: number for name, number in found.items() if number is not None}


def sectors(write: Write, size: int) -> Iterator[Write]:
    """A write, cut at the borders of sectors."""
    borders = range((write.offset // size + 1) * size, write.end, size)
    for first, last in pairwise([write.offset, *borders, write.end]):
        yield Write(write.file, first, write.data[first - write.offset : last - write.offset])


def change(content: bytearray, step: Write | Truncate, filler: bytes) -> None:
    if isinstance(step, Truncate):
        resize(content, step.size, b"\0")
        return
    resize(content, max(len(content), step.offset), filler)
    content[step.offset : step.end] = step.data


def resize(content: bytearray, size: int, filler: bytes) -> None:
    missing = size - len(content)
    if missing > 0:
        content += (filler * (missing // len(filler) + 1))[:missing]
    else:
        del content[size:]
