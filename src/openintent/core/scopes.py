"""Scopes: what a name covers, and which of many names overlap one.

`*` covers every scope; `p/**` covers `p` and everything that starts with `p/`; any other name covers only itself.
Nothing else is special. Two scopes overlap when either covers the other. The index answers in O(depth) of the
name, however many scopes it holds.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from openintent.core.shelves import Index, shelve, unshelve
from openintent.model import Limits

T = TypeVar("T")

EVERYTHING = "*"
BELOW = "/**"
ROOT_ALONE = ("",)


def problem(scope: str, limits: Limits) -> str | None:
    """What is wrong with this name, or None."""
    if not 1 <= len(scope) <= limits.scope_chars_max:
        return f"a scope has 1 to {limits.scope_chars_max} characters"
    if not scope.isprintable():
        return "a scope has no control characters"
    if scope.count("/") >= limits.scope_segments_max:
        return f"a scope has at most {limits.scope_segments_max} segments"
    return None


def split(scope: str) -> tuple[str, bool]:
    """The path that a scope stands at, and whether it covers what is below."""
    if scope[-1] != "*":  # most scopes; all that follows is for the others
        return scope, False
    if scope == EVERYTHING:
        return "", True
    if scope.endswith(BELOW) and len(scope) > len(BELOW):
        return scope[: -len(BELOW)], True
    return scope, False


def ancestors(path: str) -> Iterator[str]:
    """The paths above this one, the root (which is "") last."""
    cut = path.rfind("/")
    while cut > 0:
        path = path[:cut]
        yield path
        cut = path.rfind("/")
    yield ""


def lineage(path: str) -> tuple[str, ...]:
    """The same at once; most paths have one segment, and so nothing but the root above them."""
    return tuple(ancestors(path)) if "/" in path else ROOT_ALONE


def covers(outer: str, inner: str) -> bool:
    path, wide = split(outer)
    if not wide:
        return outer == inner
    inner_path, _ = split(inner)
    if not path:
        return True
    return inner_path == path or inner_path.startswith(path + "/")


def overlap(one: str, other: str) -> bool:
    return covers(one, other) or covers(other, one)


class ScopeIndex(Generic[T]):
    """Items by scope, one for each scope, each with an owner; answers which of them overlap a scope."""

    __slots__ = ("_below", "_owned", "_wide", "items")

    def __init__(self) -> None:
        self.items: dict[str, tuple[str, T]] = {}  # scope -> owner, item
        self._wide: dict[str, tuple[str, T]] = {}  # path -> the item that covers all below it
        self._owned: Index[T] = {}  # owner -> scope -> item; not the one that covers everything
        self._below: dict[str, Index[T]] = {}  # path, but not the root -> the same for those strictly below it

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self.items.values())

    def owned(self, owner: str) -> Iterator[T]:
        """The items of one owner."""
        yield from self._owned.get(owner, {}).values()
        everything = self._wide.get("")
        if everything is not None and everything[0] == owner:
            yield everything[1]

    def sort(self, key: Callable[[T], int]) -> None:
        """Put the items into an order, in which they will be iterated; those that are added later come last."""
        if len(self.items) > 1:
            self.items = dict(sorted(self.items.items(), key=lambda entry: key(entry[1][1])))

    def get(self, scope: str) -> T | None:
        found = self.items.get(scope)
        return None if found is None else found[1]

    def add(self, scope: str, owner: str, item: T) -> None:
        assert scope not in self.items, scope
        self.items[scope] = (owner, item)
        if scope[-1] == "*" or "/" in scope:
            self._add_deep(scope, owner, item)
            return
        scopes = self._owned.get(owner)  # most scopes: `shelve`, without a call
        if scopes is None:
            self._owned[owner] = {scope: item}
        else:
            scopes[scope] = item

    def _add_deep(self, scope: str, owner: str, item: T) -> None:
        path, wide = split(scope)
        if wide:
            self._wide[path] = (owner, item)
        if path:
            shelve(self._owned, owner, scope, item)
            for above in lineage(path)[:-1]:
                shelve(self._below.setdefault(above, {}), owner, scope, item)

    def remove(self, scope: str) -> None:
        owner, _ = self.items.pop(scope)
        if scope[-1] == "*" or "/" in scope:
            self._remove_deep(scope, owner)
            return
        scopes = self._owned[owner]
        del scopes[scope]
        if not scopes:
            del self._owned[owner]

    def _remove_deep(self, scope: str, owner: str) -> None:
        path, wide = split(scope)
        if wide:
            del self._wide[path]
        if path:
            unshelve(self._owned, owner, scope)
            for above in lineage(path)[:-1]:
                unshelve(self._below[above], owner, scope)
                if not self._below[above]:
                    del self._below[above]

    def other(self, scope: str, owner: str) -> T | None:
        """One item that overlaps this scope and belongs to another owner."""
        path, wide = split(scope)
        at = self.items.get(path) if path else None
        if at is not None and at[0] != owner:
            return at[1]
        if self._wide:
            found = self._wide_other(path, owner)
            if found is not None:
                return found
        return self._below_other(path, owner) if wide else None

    def blocking(self, scope: str, owner: str) -> T | None:
        """One item that an owner's item on this scope could not stand beside: another's that overlaps, or the same."""
        if scope[-1] != "*" and not self._wide:  # most scopes, in most spaces
            found = self.items.get(scope)
            return None if found is None else found[1]
        return self.other(scope, owner) or self.get(scope)

    def _wide_other(self, path: str, owner: str) -> T | None:
        found = self._wide.get(path)
        if found is not None and found[0] != owner:
            return found[1]
        for above in lineage(path):
            found = self._wide.get(above)
            if found is not None and found[0] != owner:
                return found[1]
        return None

    def _below_other(self, path: str, owner: str) -> T | None:
        for other, scopes in self._owners_below(path).items():
            if other != owner:
                return next(iter(scopes.values()))
        return None

    def overlapping(self, scope: str, *, but: str | None = None) -> Iterator[T]:
        """Every item that overlaps this scope, each once; those of one owner may be left out."""
        path, wide = split(scope)
        at = self.items.get(path)
        if at is not None and at[0] != but and not split(path)[1]:
            yield at[1]
        if self._wide:
            for above in dict.fromkeys((path, *lineage(path))):
                at = self._wide.get(above)
                if at is not None and at[0] != but:
                    yield at[1]
        if wide:
            for owner, scopes in self._owners_below(path).items():
                if owner != but:
                    yield from scopes.values()

    def _owners_below(self, path: str) -> Index[T]:
        return self._below.get(path, {}) if path else self._owned
