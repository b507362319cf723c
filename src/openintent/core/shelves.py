"""Things by a group and a key in it; a group is there as long as it has any."""

from typing import TypeVar

T = TypeVar("T")
Index = dict[str, dict[str, T]]


def shelve(index: Index[T], group: str, key: str, thing: T) -> None:
    index.setdefault(group, {})[key] = thing


def unshelve(index: Index[T], group: str, key: str) -> None:
    """Take a thing out, and its group too if it was the last."""
    things = index[group]
    del things[key]
    if not things:
        del index[group]
