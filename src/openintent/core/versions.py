"""The versions of an intent: how each change of it is counted and written down."""

from typing import Final

from openintent.core.answers import Conflict
from openintent.core.books import Books, patch_key
from openintent.model import Intent, Patch, PatchRecord

# A state up to this size is written whole at each change: one small record that replaces itself. A larger one is
# kept as patches behind a whole record, so that the journal holds changes and not megabytes.
WHOLE_BYTES_MAX: Final = 4_096
PATCHES_MAX: Final = 64


def version_differs(intent: Intent, expect: int | None) -> Conflict | None:
    return None if expect in (None, intent.version) else Conflict(intent.version)


def new_version(books: Books, intent: Intent) -> None:
    intent.version += 1
    intent.updated_at_ms = books.date_ms


def keep(books: Books, intent: Intent) -> None:
    """Write the whole intent, and with that make its patch records void."""
    intent.batch = books.batch
    books.keep(f"i/{intent.id}", intent)
    if intent.patches:
        books.wipe(patch_key(intent.id, 0), patch_key(intent.id, intent.version + 1))
        for version in range(intent.version - intent.patches, intent.version + 1):
            books.changes.pop(patch_key(intent.id, version), None)
        intent.patches = 0


def keep_change(books: Books, intent: Intent, steps: list[Patch]) -> None:
    if intent.state_bytes <= WHOLE_BYTES_MAX or intent.patches >= PATCHES_MAX:
        keep(books, intent)
        return
    intent.patches += 1
    intent.batch = books.batch
    books.keep(patch_key(intent.id, intent.version), PatchRecord(intent.version, intent.updated_at_ms, steps))
