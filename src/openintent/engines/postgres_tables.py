"""The tables of the PostgreSQL engine and the statements about them; `@` stands for their schema."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from openintent.engines.base import DeleteRange, Head
from openintent.engines.journaled import encode_head

SCHEMA_VERSION: Final = 1
# An entry of an index has room for 2,704 bytes, and a key of ours may be longer. What is beyond this is not in the
# index, but its digest is.
KEY_BYTES: Final = 1_500

# Keys are bytes, not text: those have one order in every database, whatever its encoding and collation, and may hold a
# NUL. Beside the row of `head` there is room for its next versions, so that it is found in one page.
TABLES: Final = f"""
CREATE TABLE @.meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE @.reign (term bigint NOT NULL);
CREATE TABLE @.head (term bigint NOT NULL, beat bigint NOT NULL, rev bigint NOT NULL, body bytea NOT NULL)
    WITH (fillfactor = 10);
CREATE TABLE @.journal (number bigint PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE @.records (
    key bytea NOT NULL, digest bytea NOT NULL, rest bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (key, digest)
);
INSERT INTO @.reign VALUES (0);
INSERT INTO @.head VALUES (0, 0, 0, '\\x{encode_head(Head()).hex()}');
INSERT INTO @.meta VALUES ('version', '{SCHEMA_VERSION}');
"""  # noqa: S608  # both are constants
# Only if there is none: whoever may use a schema that an operator has made may perhaps not make one.
CREATE_SCHEMA: Final = "CREATE SCHEMA @;"
FOUND: Final = """
SELECT to_regclass('@.meta') IS NOT NULL, to_regnamespace('@') IS NOT NULL,
    EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('@'))
"""
SETTINGS: Final = """
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
    current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')
"""
# Looked at in every commit: a setting may change while we are connected.
SAFE: Final = """
    AND current_setting('synchronous_commit') <> 'off'
    AND current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'
"""
MOVE: Final = """
WITH moved AS (
    UPDATE @.head SET term = %(term)b, beat = %(beat)b, rev = %(rev)b, body = %(body)b
    WHERE term = %(old_term)b AND beat = %(old_beat)b AND rev = %(old_rev)b {safe} RETURNING term
)
"""
ADD: Final = ", added AS (INSERT INTO @.journal (number, body) SELECT %(number)b::bigint, %(row)b::bytea FROM moved)"
REIGN: Final = ", begun AS (UPDATE @.reign SET term = moved.term FROM moved)"

HOLD: Final = """
SELECT set_config('idle_in_transaction_session_timeout', %s, true) FROM @.reign WHERE term = %s FOR SHARE
"""
TAKE_OUT: Final = """
WITH gone AS (DELETE FROM @.journal WHERE number <= %s RETURNING number) SELECT min(number), max(number) FROM gone
"""
WIPE: Final = """
DELETE FROM @.records AS r
USING unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[]) AS s (first, first_rest, last, last_rest)
WHERE (r.key, r.rest) >= (s.first, s.first_rest) AND (r.key, r.rest) < (s.last, s.last_rest)
"""
DELETE: Final = """
DELETE FROM @.records AS r USING unnest(%b::bytea[], %b::bytea[]) AS gone (key, digest)
WHERE r.key = gone.key AND r.digest = gone.digest
"""
PUT: Final = """
INSERT INTO @.records (key, digest, rest, value)
SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[])
ON CONFLICT (key, digest) DO UPDATE SET value = excluded.value
"""
SCAN: Final = """
SELECT key || rest, value FROM @.records
WHERE (key, rest) >= (%(first)b, %(first_rest)b) AND (key, rest) < (%(last)b, %(last_rest)b)
ORDER BY key {way}, rest {way} LIMIT %(limit)s
"""


def append_statement(*, with_row: bool, begins_term: bool, weak: bool) -> str:
    moved = MOVE.format(safe="" if weak else SAFE)
    return f"{moved}{ADD if with_row else ''}{REIGN if begins_term else ''} SELECT FROM moved"


class KeyParts(NamedTuple):
    key: bytes
    digest: bytes
    rest: bytes


def parts_of(key: str) -> KeyParts:
    """What is in the index, and what is too long for it. In order of (key, rest) they are in the order of the whole."""
    whole = key.encode()
    rest = whole[KEY_BYTES:]
    return KeyParts(whole[:KEY_BYTES], sha256(rest).digest() if rest else b"", rest)


def fold_steps(ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None]) -> Iterator[tuple[str, list[Any]]]:
    """The statements of a fold, in their order."""
    if ranges:
        spans = [(parts_of(span.first), parts_of(span.last)) for span in ranges]
        firsts, lasts = [first for first, _ in spans], [last for _, last in spans]
        columns = [[each.key for each in firsts], [each.rest for each in firsts]]
        yield WIPE, [*columns, [each.key for each in lasts], [each.rest for each in lasts]]
    dead = [parts_of(key) for key, value in values.items() if value is None]
    if dead:
        yield DELETE, [[each.key for each in dead], [each.digest for each in dead]]
    # In the order of the index, so that it is walked through once.
    kept = [(parts_of(key), value) for key, value in sorted(values.items()) if value is not None]
    if kept:
        parts = [each for each, _ in kept]
        columns = [[each.key for each in parts], [each.digest for each in parts], [each.rest for each in parts]]
        yield PUT, [*columns, [value for _, value in kept]]
