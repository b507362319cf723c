"""Every fuzz target by its name, what it begins with, and inputs made from that."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import decoders
from ledger import ledger

CORPUS = Path(__file__).parent / "corpus"
TARGETS: dict[str, Callable[[bytes], None]] = {
    "body": decoders.body,
    "connection": decoders.connection,
    "events": decoders.events,
    "header": decoders.header,
    "ledger": ledger,
    "path": decoders.path,
    "query": decoders.asked_for,
    "record": decoders.record,
    "scope": decoders.scope,
}
SLOW = {"connection": 8, "ledger": 10}  # so many times slower than the others
STRANGE = (b"\0", b"\xff", b"\xc0\xaf", b"\xe2\x80\xae", b"\r\n", b"%", b'"', b"{", b"]", b":", b"-1", b"1e999")
CHANGES_MAX = 4
NOISE_MAX = 64


def corpus(target: str) -> list[bytes]:
    """What a target begins with. A line has hexadecimal digits, and may say after a # what they are."""
    lines = (CORPUS / f"{target}.hex").read_text("ascii").splitlines()
    return [bytes.fromhex(line.partition("#")[0]) for line in lines]


def mutants(seeds: list[bytes], number: int, random: Random) -> Iterator[bytes]:
    """So many inputs, most of them a little different from one of the seeds."""
    for _ in range(number):
        data = random.choice([*seeds, random.randbytes(random.randrange(NOISE_MAX))])
        for _ in range(random.randint(1, CHANGES_MAX)):
            data = random.choice(CHANGES)(data, seeds, random)
        yield data


def _slice(data: bytes, random: Random) -> slice:
    one, other = random.randint(0, len(data)), random.randint(0, len(data))
    return slice(min(one, other), max(one, other))


def _flip(data: bytes, _: list[bytes], random: Random) -> bytes:
    if not data:
        return data
    place = random.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << random.randrange(8))]) + data[place + 1 :]


def _insert(data: bytes, _: list[bytes], random: Random) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + random.choice(STRANGE) + data[place:]


def _drop(data: bytes, _: list[bytes], random: Random) -> bytes:
    gone = _slice(data, random)
    return data[: gone.start] + data[gone.stop :]


def _repeat(data: bytes, _: list[bytes], random: Random) -> bytes:
    again = _slice(data, random)
    return data[: again.stop] + data[again] * random.choice((1, 1, 3)) + data[again.stop :]


def _splice(data: bytes, seeds: list[bytes], random: Random) -> bytes:
    other = random.choice(seeds)
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


def _retype(data: bytes, _: list[bytes], random: Random) -> bytes:
    return bytes([random.randrange(256)]) + data[1:]


CHANGES = (_flip, _flip, _insert, _drop, _repeat, _splice, _retype)
