"""Bugs in the engine on etcd."""

from typing import Final

from mutant import Edit, Mutant, Picked, tests

STORE: Final = "engines/etcd.py"
FAULTS: Final = "contract/test_etcd_faults.py"
SUITE: Final = "contract/test_engines.py"


def broken(*names: str) -> Picked:
    """Of what holds on every server when something breaks."""
    return tests(*(f"contract/test_server_faults.py::test_{name}" for name in names))


MUTANTS: Final = (
    Mutant(
        "a commit to etcd does not compare the head",
        (Edit(STORE, "self._write([known], changes, ", "self._write([], changes, "),),
        (tests(f"{SUITE}::test_a_deposed_writer_commits_nothing[etcd]"),),
    ),
    Mutant(
        "a commit to etcd compares the head without its beat",
        (Edit(STORE, 'b"%d/%d/%d" % (head.term, head.beat, head.rev)', 'b"%d/%d/%d" % (head.term, 0, head.rev)'),),
        (tests(f"{SUITE}::test_term_beat_and_rev_are_each_compared[etcd-beat]"),),
    ),
    Mutant(
        "a commit to etcd is acknowledged before etcd has answered",
        (
            Edit(
                STORE,
                "        answer = await self._write([known], changes, [get(keys.head)])\n",
                "        self._compacting = asyncio.ensure_future(self._write([known], changes, [get(keys.head)]))\n"
                "        return\n",
            ),
        ),
        (broken("a_commit_over_a_line_that_is_cut_is_in_doubt_and_the_next_term_tells[etcd-requests]"),),
    ),
    Mutant(
        "a commit that etcd did not answer is sent again to another member",
        (
            Edit(
                "engines/etcd_gateway.py",
                "                if writes:\n                    raise failure from error\n",
                "",
            ),
        ),
        (tests(f"{FAULTS}::test_a_commit_without_an_answer_is_not_sent_again_to_another_member"),),
    ),
    Mutant(
        "a commit that etcd refused for want of space is said not to have happened",
        (Edit("engines/etcd_gateway.py", " and NO_SPACE not in refusal.told", ""),),
        (tests("contract/test_etcd.py::test_a_full_database_is_told_with_what_to_do"),),
    ),
    Mutant(
        "a fold on etcd does not compare the term",
        (
            Edit(
                STORE,
                '            {"key": keys.term, "result": "EQUAL", "target": "VALUE", "value": b"%d" % term},\n',
                "",
            ),
        ),
        (broken("a_fold_of_a_deposed_writer_stores_nothing[etcd-0]"),),
    ),
    Mutant(
        "a takeover on etcd does not change the term that folds compare",
        (
            Edit(
                STORE,
                "if head.term != expect.term or _at(expect) == NOWHERE:",
                "if _at(expect) == NOWHERE:",
            ),
        ),
        (tests("contract/test_stores.py::test_a_deposed_writer_folds_nothing[etcd]"),),
    ),
    Mutant(
        "a fold on etcd that was given up may store something later",
        (
            Edit(
                STORE,
                '"result": "EQUAL", "target": "MOD", "mod_revision": revision',
                '"result": "GREATER", "target": "MOD", "mod_revision": -1',
            ),
        ),
        (broken("a_fold_that_was_given_up_and_arrives_late_stores_nothing[etcd]"),),
    ),
    Mutant(
        "a fold on etcd takes the rows out before it has stored what they say",
        (
            Edit(
                "engines/etcd_keys.py",
                "        held: list[Operation] = []\n",
                "        yield done\n        done, held = [], []\n",
            ),
        ),
        (tests(f"{FAULTS}::test_rows_are_taken_out_only_with_the_last_of_what_they_say"),),
        number=22,
    ),
    Mutant(
        "a scan of etcd ends with its first page",
        (Edit(STORE, "revision or found.header.revision, found.more", "revision or found.header.revision, False"),),
        (tests(f"{SUITE}::test_ten_thousand_records_in_one_batch[etcd]"),),
    ),
    Mutant(
        "the head is read from a member of etcd that may be behind",
        (Edit(STORE, '{"key": self._keys.head})', '{"key": self._keys.head, "serializable": True})'),),
        (broken("when_the_leader_of_three_dies_the_engine_goes_on[etcd]"),),
    ),
    Mutant(
        "a part of a large commit to etcd may arrive when another has its name",
        (
            Edit(
                STORE,
                "        await self._write([], [put(self._keys.staged(name), part)], [])",
                "        staged = put(self._keys.staged(name), part)\n"
                '        await self._gateway.ask("/v3/kv/txn", {"compare": [], "success": [staged]})',
            ),
        ),
        (broken("a_part_that_may_arrive_late_leaves_its_commit_in_doubt[etcd]"),),
    ),
)
