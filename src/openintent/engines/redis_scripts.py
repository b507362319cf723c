"""What the Redis engine stores, and the scripts that change it: each is run by the server as one step.

    head      a hash: `at` is what an append compares, `term` what a fold compares, `body` is all of it; `rows` is the
              number of the newest row, `fold` that of the newest fold, `format` the version of all this
    journal   a sorted set: the score is the number of the row, the member is that number, a colon and the row
    records   a hash: what is folded, by key
    names     a sorted set of the keys of `records`, all of one score, which has them in the order of their bytes

A script that fails halfway is not undone. So what makes the rest count is written last: the head after the row, a name
after its record, and the rows are taken out of the journal when all that they say is stored. A row beyond `rows` is
what a failed append has left; nobody reads it, and the next append takes it away.

A server that has no memory left refuses the first write of a script, if that is one which needs memory, and none after
it. So a script of ours begins with such a write.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha1
from typing import Final, NamedTuple

from openintent.engines.base import DeleteRange

FORMAT: Final = 1
CORRUPT: Final = "CORRUPT "  # how a script begins to say that what is stored cannot be
# The server does nothing else while it runs a script, so that each has little to do.
KEYS_PER_CALL: Final = 500
BYTES_PER_CALL: Final = 1 << 20
RANGES_PER_CALL: Final = 100


class Script(NamedTuple):
    text: str
    digest: str


def _script(text: str) -> Script:
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())  # by this name the server keeps it


# Answers 1, or the head that it found instead.
APPEND: Final = _script(f"""
local found = redis.call('HMGET', KEYS[1], 'at', 'body')
if (found[1] or '0/0/0') ~= ARGV[1] then
  return found[2] or ''
end
local fields = {{'at', ARGV[2], 'term', ARGV[3], 'body', ARGV[4], 'format', '{FORMAT}'}}
if ARGV[5] ~= '' then
  if redis.call('ZCOUNT', KEYS[2], ARGV[5], '+inf') > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], ARGV[5], '+inf')
  end
  redis.call('ZADD', KEYS[2], ARGV[5], ARGV[6])
  fields[9], fields[10] = 'rows', ARGV[5]
end
redis.call('HSET', KEYS[1], unpack(fields))
return 1
""")

ROWS: Final = _script(f"""
local last = redis.call('HGET', KEYS[1], 'rows')
local found, after, size = {{}}, ARGV[1], 0
while last and #found < tonumber(ARGV[2]) and size < {BYTES_PER_CALL} do
  local row = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. after, last, 'WITHSCORES', 'LIMIT', 0, 1)
  if #row == 0 then
    break
  end
  found[#found + 1], after, size = row[1], row[2], size + #row[1]
end
return found
""")

# A fold gets a number, and with that the one before has ended: a part of it that is still on its way changes nothing
# any more. Answers the number, 0 if the rows are gone already, and the head.
BEGIN_FOLD: Final = _script("""
local found = redis.call('HMGET', KEYS[1], 'term', 'body')
local number = 0
if found[1] == ARGV[1] and redis.call('ZCOUNT', KEYS[2], ARGV[2], ARGV[2]) > 0 then
  number = redis.call('HINCRBY', KEYS[1], 'fold', 1)
end
return {number, found[2] or ''}
""")

# Answers the head if it is of another term, and -1 if this fold has ended.
_GUARD: Final = """
local found = redis.call('HMGET', KEYS[1], 'term', 'fold', 'body')
if found[1] ~= ARGV[1] then
  return found[3] or ''
end
if found[2] ~= ARGV[2] then
  return -1
end
"""

# Answers how many of the ranges are empty now.
WIPE: Final = _script(f"""{_GUARD}
local left = {KEYS_PER_CALL}
for place = 3, #ARGV, 2 do
  local names = redis.call('ZRANGEBYLEX', KEYS[4], ARGV[place], ARGV[place + 1], 'LIMIT', 0, left)
  if #names > 0 then
    redis.call('ZREM', KEYS[4], unpack(names))
    redis.call('HDEL', KEYS[3], unpack(names))
  end
  left = left - #names
  if left == 0 then
    return (place - 3) / 2
  end
end
return (#ARGV - 2) / 2
""")

# The keys to delete, as many as the fourth says, then keys and values; with a number of rows it was the last of a fold.
STORE: Final = _script(f"""{_GUARD}
local gone, kept, names = {{}}, {{}}, {{}}
for place = 5, 4 + ARGV[4] do
  gone[#gone + 1] = ARGV[place]
end
for place = 5 + ARGV[4], #ARGV, 2 do
  kept[#kept + 1], kept[#kept + 2] = ARGV[place], ARGV[place + 1]
  names[#names + 1], names[#names + 2] = 0, ARGV[place]
end
if #gone > 0 then
  redis.call('ZREM', KEYS[4], unpack(gone))
  redis.call('HDEL', KEYS[3], unpack(gone))
end
if #kept > 0 then
  redis.call('HSET', KEYS[3], unpack(kept))
  redis.call('ZADD', KEYS[4], unpack(names))
end
if ARGV[3] ~= '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[3])
end
return 1
""")

SCAN: Final = _script(f"""
local names = redis.call(ARGV[1], KEYS[4], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local found, size = {{}}, 0
for _, name in ipairs(names) do
  local value = redis.call('HGET', KEYS[3], name)
  if not value then
    return redis.error_reply('{CORRUPT}a key is in the order of keys and has no record')
  end
  found[#found + 1], found[#found + 2] = name, value
  size = size + #value
  if size >= {BYTES_PER_CALL} then
    break
  end
end
return found
""")


def keys_below(prefix: str) -> tuple[str, str, str, str]:
    """In braces is what a cluster goes by when it chooses a node: so all of them are on one."""
    head, journal, records, names = (f"{{{prefix}}}:{name}" for name in ("head", "journal", "records", "names"))
    return head, journal, records, names


def bounds(span: DeleteRange) -> tuple[bytes, bytes]:
    return b"[" + span.first.encode(), b"(" + span.last.encode()


class Slice(NamedTuple):
    gone: list[bytes]
    kept: list[bytes]  # keys and values by turns

    @property
    def arguments(self) -> Sequence[bytes | int]:
        return [len(self.gone), *self.gone, *self.kept]


def slices(values: Mapping[str, bytes | None]) -> Iterator[Slice]:
    """Each is small enough for one call, and there is always one."""
    count, size, part = 0, 0, Slice([], [])
    for key, value in values.items():
        if count == KEYS_PER_CALL or size >= BYTES_PER_CALL:
            yield part
            count, size, part = 0, 0, Slice([], [])
        if value is None:
            part.gone.append(key.encode())
        else:
            part.kept.extend((key.encode(), value))
        count, size = count + 1, size + len(value or b"")
    yield part
