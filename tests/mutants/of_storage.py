"""Bugs in the file and in the lock beside it."""

from typing import Final

from mutant import Edit, Mutant, tests

MUTANTS: Final = (
    Mutant(
        "the last commit of the journal is dropped when the file is opened",
        (
            Edit(
                "engines/sqlite_database.py",
                "            folded = self._db.execute(",
                "            self.weight -= self._pending.pop().weight if len(self._pending) > 1 else 0\n"
                "            folded = self._db.execute(",
            ),
        ),
        (tests("contract/test_sqlite.py::test_commits_that_were_not_folded_are_read_back"),),
    ),
    Mutant(
        "a failed write is taken for a good one",
        (
            Edit(
                "engines/sqlite_database.py",
                '            self._stop(error)\n            raise OutcomeUncertain(f"{self.path}: {error}") from error',
                "            pass",
            ),
        ),
        (tests("contract/test_sqlite.py::test_a_full_database_is_uncertain_and_refuses_until_it_is_reopened"),),
        number=29,
        twin="PostgreSQL before 12, fsync",
    ),
    Mutant(
        "after a failed sync the file is used without a proof that it can be written",
        (
            Edit(
                "engines/sqlite_database.py",
                "        self._store.checkpoint()\n        found",
                "        found",
            ),
        ),
        (tests("contract/test_reopening.py"),),
        number=29,
    ),
    Mutant(
        "a commit does not look whether the head has moved",
        (Edit("engines/sqlite_database.py", "            raise Deposed(actual)", "            pass"),),
        (tests("contract/test_engines.py::test_a_deposed_writer_commits_nothing"),),
    ),
    Mutant(
        "a fold that breaks off has taken its commits out of the journal",
        (
            Edit(
                "engines/sqlite_database.py",
                "        with self._db:\n            self._delete_ranges(ranges)",
                '        if True:\n            self._db.execute("DELETE FROM journal WHERE id <= ?", (rows[-1].id,))\n'
                "            self._delete_ranges(ranges)",
            ),
        ),
        (tests("power/test_power_cuts.py"),),
        number=22,
    ),
    Mutant(
        "two processes may have the database open",
        (
            Edit(
                "engines/lockfile.py",
                "            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
                "            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)",
            ),
        ),
        (tests("contract/test_lockfile.py::test_a_second_open_is_told_who_has_the_database"),),
        number=33,
        twin="the public OpenIntent server",
    ),
    Mutant(
        "a second server gets the file while the process for it is not replaced",
        (
            Edit(
                "engines/lockfile.py",
                "        if not self._lent:\n            # Unlocked",
                "        if True:\n            # Unlocked",
            ),
        ),
        (tests("contract/test_apart.py", "contract/test_orphans.py"),),
    ),
    Mutant(
        "of a commit whose process was killed it is said that it did not happen",
        (
            Edit(
                "engines/apart_child.py",
                "OutcomeUncertain(what) if asked.commits else EngineUnavailable(what)",
                "EngineUnavailable(what)",
            ),
        ),
        (tests("contract/test_apart.py"),),
    ),
    Mutant(
        "a request that could not be written takes the answer of the next one",
        (
            Edit(
                "engines/apart_child.py",
                "        frame = self._outbox.frame(request)  # first of all: what cannot be written gets no answer\n",
                "",
            ),
            Edit(
                "engines/apart_child.py",
                "        self._send(frame)\n",
                "        self._send(self._outbox.frame(request))\n",
            ),
        ),
        (tests("contract/test_frames.py"),),
    ),
    Mutant(
        "a process that takes the place of a killed one believes whatever it finds",
        (
            Edit(
                "engines/apart_program.py",
                "if known is not None:\n            database.reopen(known)",
                "if known is not None:\n            database.reopen()",
            ),
        ),
        (tests("contract/test_apart.py"),),
    ),
    Mutant(
        "an older file that is put back repeats its tokens",
        (
            Edit(
                "engines/lockfile.py",
                "        floor = max(stored.token, self._entry.token_reserved)",
                "        floor = stored.token",
            ),
        ),
        (tests("contract/test_lockfile.py::test_tokens_skip_the_reserved_block_after_a_crash"),),
        number=27,
    ),
    Mutant(
        "tokens are granted that were never reserved",
        (
            Edit(
                "engines/lockfile.py",
                "        if token > self._entry.token_reserved:",
                "        if False:",
            ),
        ),
        (tests("contract/test_lockfile.py::test_tokens_skip_the_reserved_block_after_a_crash"),),
        number=27,
    ),
    Mutant(
        "a torn slot of the lock file is believed",
        (
            Edit(
                "engines/lockfile.py",
                " if zlib.crc32(slot.entry) == slot.crc else None",
                "",
            ),
        ),
        (tests("contract/test_torn_slots.py"),),
        number=32,
    ),
    Mutant(
        "the folder of a new lock file is not synced",
        (
            Edit(
                "engines/lockfile.py",
                "            if self._fresh:\n                sync_folder(self.path.parent)\n",
                "",
            ),
        ),
        (tests("power/test_power_lockfile.py"),),
        number=30,
    ),
    Mutant(
        "a commit is not synced to the disk",
        (Edit("engines/sqlite_file.py", 'db.pragma("synchronous", "full")', 'db.pragma("synchronous", "normal")'),),
        (tests("power/test_power_cuts.py::test_a_power_cut_loses_nothing_that_was_acknowledged"),),
        number=28,
    ),
    Mutant(
        "a server commits by itself while its process for the file has something to do",
        (Edit("engines/apart.py", "            and self._child.is_idle\n", ""),),
        (tests("contract/test_here.py"),),
    ),
    Mutant(
        "a server that commits by itself does not look whether the head has moved",
        (
            Edit(
                "engines/apart.py",
                "(expect.term, expect.beat, expect.rev) == (self._head.term, self._head.beat, self._head.rev)",
                "True",
            ),
        ),
        (tests("contract/test_here.py"),),
    ),
    Mutant(
        "a server that commits by itself uses tokens that were never reserved",
        (Edit("engines/apart.py", "            and head.token <= self._token_ready\n", ""),),
        (tests("contract/test_here.py"),),
    ),
    Mutant(
        "a server that commits by itself begins a term of which the lock file does not know",
        (Edit("engines/apart.py", "            and head.term == self._head.term\n", ""),),
        (tests("contract/test_here.py"),),
    ),
    Mutant(
        "a server whose lock file was deleted commits by itself",
        (Edit("engines/apart.py", "            and self._lock.held\n", ""),),
        (tests("contract/test_here.py"),),
    ),
    Mutant(
        "the process for the file is not told of what the server committed by itself",
        (Edit("engines/apart.py", "            self._child.ask(CatchUp()).cancel()", "            pass"),),
        (tests("contract/test_here.py"),),
    ),
    Mutant(
        "a server goes on after a commit of its own has failed",
        (Edit("engines/sqlite_here.py", '            self.failure = f"must be reopened: {error}"\n', ""),),
        (tests("contract/test_here.py"),),
        number=29,
    ),
    Mutant(
        "a server that commits by itself waits for a slow disk again and again",
        (Edit("engines/sqlite_here.py", "            self._rests_until = ended + PAUSE_S", "            pass"),),
        (tests("contract/test_here.py"),),
    ),
)
