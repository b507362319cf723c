"""A process to be killed: commits to the database it is given, and prints the beat of each commit that returned."""

import asyncio
import os
import sys

from engine_words import following

from openintent.engines import open_engine, sqlite_database
from openintent.engines.base import CommitsHere, Delete, Put


async def main(path: str, *, apart: bool, here: bool) -> None:
    """`here`: by itself, whenever it can."""
    engine = open_engine(f"sqlite:///{path}", address="http://127.0.0.1:8123", apart=apart)
    while True:
        seen = await engine.head()
        beat = seen.beat + 1
        head = following(seen, token=seen.token + 1)
        changes = [Put(f"a/{beat:06}", b""), Put(f"b/{beat:06}", b""), Delete(f"b/{beat - 10:06}")]
        done = here and isinstance(engine, CommitsHere) and engine.commit_here(expect=seen, head=head, changes=changes)
        if not done:
            await engine.commit(expect=seen, head=head, changes=changes)
        os.write(sys.stdout.fileno(), f"{beat}\n".encode())


if __name__ == "__main__":
    # Small bounds, so that it is killed while folding as often as while committing.
    for name, weight in {"SLICE_WEIGHT": 20, "IDLE_WEIGHT": 30, "FORCED_WEIGHT": 60}.items():
        setattr(sqlite_database, name, weight)
    asyncio.run(main(sys.argv[1], apart="apart" in sys.argv[2:], here="here" in sys.argv[2:]))
