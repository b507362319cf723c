"""A process that uses the store and the lock file, and says what the journal has of it. For `strace` to watch."""

import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "grantor")]

from powerdisk import Journal, Names, Step, Sync, SyncFolder, Truncate, Write  # noqa: E402  # it is run by its path
from powerlife import small_bounds  # noqa: E402
from powervfs import recorded  # noqa: E402

from openintent.engines.base import Put  # noqa: E402
from openintent.engines.lockfile import LockFile  # noqa: E402
from openintent.engines.sqlite_database import Store  # noqa: E402

FOLDER = "(folder)"


def work(database: Path) -> None:
    for _ in range(2):
        lock = LockFile(database)
        store = Store(database)
        lock.admit(store.head, address="")
        for number in range(40):
            lock.prepare(durable_term=number, token=number)
            change = Put(f"k{number}", bytes(3_000))
            store.append(b"\x90", (change,), b"\x91" + bytes(3_000))
            if number % 5 == 4:
                store.fold()
        store.checkpoint()
        store.fold_all()
        store.close()
        lock.release()


def said(steps: list[Step]) -> Iterator[str]:
    names: dict[int, str] = {}
    for step in steps:
        match step:
            case Write(file, offset, data):
                yield f"write {names[file]} {len(data)} {offset}"
            case Truncate(file, size):
                yield f"truncate {names[file]} {size}"
            case Sync(file):
                yield f"sync {names[file]}"
            case SyncFolder():
                yield f"sync {FOLDER}"
            case Names(changed):
                names.update({number: name for name, number in changed.items() if number is not None})
                yield from (f"unlink {name}" for name, number in changed.items() if number is None)


def main() -> None:
    folder = Path(sys.argv[1])
    journal = Journal()
    with recorded(journal, folder), small_bounds():
        work(folder / "leases.db")
    sys.stdout.write("\n".join(said(journal.steps)) + "\n")


if __name__ == "__main__":
    main()
