"""A process to be killed: commits to the database it is given, and prints the beat of each commit that returned."""

import asyncio
import os
import sys

from engine_words import commit

from openintent.engines import sqlite_database
from openintent.engines.base import Delete, Put
from openintent.engines.sqlite import SqliteEngine


async def main(path: str) -> None:
    engine = SqliteEngine(path, address="http://127.0.0.1:8123")
    while True:
        beat = (await engine.head()).beat + 1
        await commit(
            engine, Put(f"a/{beat:06}", b""), Put(f"b/{beat:06}", b""), Delete(f"b/{beat - 10:06}"), token=beat
        )
        os.write(sys.stdout.fileno(), f"{beat}\n".encode())


if __name__ == "__main__":
    # Small bounds, so that it is killed while folding as often as while committing.
    for name, weight in {"SLICE_WEIGHT": 20, "IDLE_WEIGHT": 30, "FORCED_WEIGHT": 60}.items():
        setattr(sqlite_database, name, weight)
    asyncio.run(main(sys.argv[1]))
