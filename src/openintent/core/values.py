"""JSON values: how large they are, and changing them without touching what others may still be reading."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from openintent.model import Patch

DEPTH_MAX: Final = 64
_SCALAR_BYTES: Final = 8


class TooDeep(ValueError):
    """A value is nested deeper than anybody can mean."""


def weigh(value: Any, depth: int = 0) -> int:
    """About how many bytes the value takes as JSON; `TooDeep` if it is nested beyond `DEPTH_MAX`, `depth` included."""
    total = 0
    level = [value]
    for _ in range(DEPTH_MAX - depth):
        below: list[Any] = []
        for item in level:
            total += _own_bytes(item, below)
        if not below:
            return total
        level = below
    raise TooDeep(f"nested deeper than {DEPTH_MAX} levels")


def _own_bytes(item: Any, below: list[Any]) -> int:
    if isinstance(item, str):
        return len(item) + 2
    if isinstance(item, dict):
        below.extend(item.values())
        return 2 + sum(len(key) + 4 for key in item)
    if isinstance(item, list):
        below.extend(item)
        return 2 + len(item)
    return _SCALAR_BYTES


def fingerprint(*parts: object) -> bytes:
    """The same for the same meaning, in every process: tells a repeated request from another one under its name."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()


class BadStep(ValueError):
    """A step of a patch cannot be carried out."""


class Draft:
    """A copy of a state that shares with the original whatever no step has touched."""

    def __init__(self, state: dict[str, Any], size: int) -> None:
        self._fresh: set[int] = set()  # containers that are ours to change
        self._kept: list[Any] = []  # keeps them alive, so that an id names one container only
        self.root: dict[str, Any] = self._own(state)
        self.size = size

    def apply(self, step: Patch) -> None:
        parent = self._parent(step.path, create=step.op != "remove")
        slot, depth = _slot(parent, step.path[-1]), len(step.path)
        if step.op == "remove":
            self._remove(parent, slot)
        elif step.op == "append":
            self._append(parent, slot, step.value, depth)
        else:
            self._set(parent, slot, step.value, depth)

    def _own(self, container: Any) -> Any:
        if id(container) in self._fresh:
            return container
        copy = container.copy()
        self._fresh.add(id(copy))
        self._kept.append(copy)
        return copy

    def _parent(self, path: Sequence[str], *, create: bool) -> Any:
        node: Any = self.root
        for segment in path[:-1]:
            slot = _slot(node, segment)
            child = _peek(node, slot)
            if create and isinstance(node, dict) and slot not in node:
                child = {}
                self.size += len(segment) + 6
            elif not isinstance(child, dict | list):
                raise BadStep(f"{segment!r} is not an object or a list")
            node[slot] = child = self._own(child)
            node = child
        return node

    def _set(self, parent: Any, slot: Any, value: Any, depth: int) -> None:
        if slot in _keys(parent):
            self.size -= weigh(parent[slot])
        elif isinstance(slot, str):
            self.size += len(slot) + 4
        else:
            raise BadStep(f"the list has no item {slot}")
        self.size += weigh(value, depth)
        parent[slot] = value

    def _append(self, parent: Any, slot: Any, value: Any, depth: int) -> None:
        if slot not in _keys(parent):
            self._set(parent, slot, [value], depth)
            return
        items = parent[slot]
        if not isinstance(items, list):
            raise BadStep(f"{slot!r} is not a list")
        parent[slot] = items = self._own(items)
        items.append(value)
        self.size += weigh(value, depth + 1) + 1

    def _remove(self, parent: Any, slot: Any) -> None:
        if slot not in _keys(parent):
            raise BadStep(f"there is nothing at {slot!r}")
        self.size -= weigh(parent[slot]) + (len(slot) + 4 if isinstance(slot, str) else 1)
        del parent[slot]


def touched(state: Any, step: Patch) -> list[str]:
    """The path of all that a step changes: indices as they count; where an item goes, the list, as the others move."""
    path: list[str] = []
    node = state
    for segment in step.path:
        if isinstance(node, list) and step.op == "remove" and len(path) == len(step.path) - 1:
            break
        path.append(str(int(segment)) if isinstance(node, list) and _is_index(segment) else segment)
        node = _below(node, segment)
    return path


def _below(node: Any, segment: str) -> Any:
    """What is there, if anything is."""
    if isinstance(node, list):
        return _peek(node, int(segment)) if _is_index(segment) else None
    return node.get(segment) if isinstance(node, dict) else None


def _is_index(segment: str) -> bool:
    return segment.isascii() and segment.isdigit() and len(segment) < 10


def _slot(node: Any, segment: str) -> str | int:
    """The key or the index that a path segment means in this container."""
    if isinstance(node, dict):
        return segment
    if _is_index(segment):
        return int(segment)
    raise BadStep(f"{segment!r} is not the index of a list item")


def _keys(node: Any) -> Any:
    return node if isinstance(node, dict) else range(len(node))


def _peek(node: Any, slot: Any) -> Any:
    return node[slot] if slot in _keys(node) else None
