"""What the changes of many commits amount to, so that only that has to be stored."""

from collections.abc import Iterable

from openintent.engines.base import Change, Delete, DeleteRange, New, Put


def coalesce(changes: Iterable[Change]) -> tuple[list[DeleteRange], dict[str, bytes | None]]:
    """What changes amount to, one after the other: first these ranges go, then each key gets its value, or none."""
    ranges: list[DeleteRange] = []
    values: dict[str, bytes | None] = {}
    born: set[str] = set()  # what was not there before these changes
    for change in changes:
        if isinstance(change, Put):
            if type(change) is New and change.key not in values:
                born.add(change.key)
            values[change.key] = change.value
        elif isinstance(change, Delete):
            if change.key in born:
                born.remove(change.key)
                del values[change.key]
            else:
                values[change.key] = None
        else:
            ranges.append(change)
            for key in [key for key in values if change.first <= key < change.last]:
                del values[key]
                born.discard(key)
    return ranges, values
