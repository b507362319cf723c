"""Bugs in the engine on ZooKeeper. Each hunt starts a server of its own, which takes about a second."""

from typing import Final

from mutant import Edit, Mutant, Picked, tests

STORE: Final = "engines/zookeeper.py"
PAGES: Final = "engines/zookeeper_pages.py"
LINE: Final = "engines/zookeeper_line.py"


def promised(name: str) -> Picked:
    """Of what every engine promises."""
    return tests(f"contract/test_engines.py::test_{name}[zookeeper]")


def stored(name: str) -> Picked:
    """Of what the journal relies on in every store."""
    return tests(f"contract/test_stores.py::test_{name}[zookeeper]")


def broken(*names: str) -> Picked:
    """Of what holds on every server when something breaks."""
    return tests(*(f"contract/test_server_faults.py::test_{name}" for name in names))


def faults(name: str) -> Picked:
    return tests(f"contract/test_zookeeper_faults.py::test_{name}")


def own(name: str) -> Picked:
    return tests(f"contract/test_zookeeper.py::test_{name}")


def paged(name: str) -> Picked:
    return tests(f"contract/test_zookeeper_pages.py::test_{name}")


MUTANTS: Final = (
    Mutant(
        "ZooKeeper: a commit does not check the version of the head",
        (Edit(STORE, "encode_head(head), version\n", "encode_head(head), -1\n"),),
        (broken("a_commit_that_arrives_late_fails_if_there_is_a_new_term[zookeeper-True]"),),
    ),
    Mutant(
        "ZooKeeper: a commit takes the version that it knows for that of the head that is expected",
        (Edit(STORE, "if self._version is None or not same_place(self._seen, expect):", "if self._version is None:"),),
        (promised("a_deposed_writer_commits_nothing"),),
    ),
    Mutant(
        "ZooKeeper: a commit is acknowledged before there is an answer",
        (
            Edit(
                STORE,
                "            answers = await call.commit(changes)\n",
                "            import asyncio\n"
                "            self._sent = asyncio.ensure_future(call.commit(changes))\n"
                "            return\n",
            ),
        ),
        (broken("a_commit_over_a_line_that_is_cut_is_in_doubt_and_the_next_term_tells[zookeeper-requests]"),),
    ),
    Mutant(
        "ZooKeeper: a commit whose answer is lost is said not to have happened",
        (Edit(LINE, "(OutcomeUncertain if writes else EngineUnavailable)", "EngineUnavailable"),),
        (broken("a_commit_over_a_line_that_is_cut_is_in_doubt_and_the_next_term_tells[zookeeper-answers]"),),
    ),
    Mutant(
        "ZooKeeper: the head is read from a member that may be behind",
        (Edit(STORE, "call.get(self._place.head)", "call.get(self._place.head, sync=False)"),),
        (faults("the_head_is_read_behind_a_sync"),),
    ),
    Mutant(
        "ZooKeeper: a head that is older than what was seen is believed",
        (Edit(STORE, "if node is None or _order(head) < _order(before):", "if node is None:"),),
        (own("commits_that_vanish_are_noticed"),),
    ),
    Mutant(
        "ZooKeeper: the version that means any version is used as one",
        (Edit(STORE, "        if version == LAST_VERSION:\n", "        if version is None:\n"),),
        (own("a_version_is_compared_when_its_count_begins_anew"),),
    ),
    Mutant(
        "ZooKeeper: a fold does not look whose term it is",
        (Edit(STORE, "int(reign.value) != term:", "int(reign.value) < term:"),),
        (stored("a_deposed_writer_folds_nothing"),),
    ),
    Mutant(
        "ZooKeeper: a fold does not check the term when it stores",
        (Edit(STORE, '("check", self._place.term, reign.version)', '("check", self._place.term, -1)'),),
        (faults("who_is_deposed_in_the_midst_of_a_fold_stores_nothing"),),
    ),
    Mutant(
        "ZooKeeper: a takeover leaves the term as it was",
        (Edit(STORE, "        if begins_term:\n", "        if begins_term and head.term == 1:\n"),),
        (stored("a_deposed_writer_folds_nothing"),),
    ),
    Mutant(
        "ZooKeeper: rows are deleted before what they say is stored",
        (
            Edit(
                STORE,
                '        await self._in_portions(guard, (("create", ',
                '        await self._in_portions(guard, [("delete", self._place.row(number)) for number in old])\n'
                "        old = []\n"
                '        await self._in_portions(guard, (("create", ',
            ),
        ),
        (faults("rows_go_in_the_same_step_in_which_what_they_say_is_seen"),),
    ),
    Mutant(
        "ZooKeeper: a fold that arrives late is carried out again",
        (Edit(STORE, "        if upto not in old:\n", "        if upto < 0:\n"),),
        (stored("a_fold_that_arrives_after_later_ones_changes_nothing"),),
    ),
    Mutant(
        "ZooKeeper: pages that are in use are deleted",
        (Edit(STORE, "for name in names if name not in used]", "for name in names]"),),
        (paged("any_history_in_small_pages_ends_as_the_plain_model_says"),),
    ),
    Mutant(
        "ZooKeeper: pages that are not neighbours are packed as one",
        (Edit(PAGES, "if run and place != run[-1] + 1:", "if run and place < run[-1] + 1:"),),
        (paged("any_history_in_small_pages_ends_as_the_plain_model_says"),),
    ),
    Mutant(
        "ZooKeeper: what is pushed out of the cache while pages are read is taken for empty",
        (
            Edit(
                STORE,
                "return [found[entry.name] for entry in entries]",
                "return [self._cache.get(entry) or [] for entry in entries]",
            ),
        ),
        (paged("any_history_in_small_pages_ends_as_the_plain_model_says"),),
    ),
    Mutant(
        "ZooKeeper: a scan ends with the first list of pages",
        (
            Edit(
                STORE,
                "                if len(found) >= limit:\n                    break\n",
                "                break\n",
            ),
        ),
        (paged("any_history_in_small_pages_ends_as_the_plain_model_says"),),
    ),
    Mutant(
        "ZooKeeper: a scan misses the key that it begins with",
        (Edit(PAGES, "if self.first <= key < self.last]", "if self.first < key < self.last]"),),
        (promised("a_scan_has_bounds_a_limit_and_a_direction"),),
    ),
    Mutant(
        "ZooKeeper: a scan that meets a page that was replaced gives up",
        (Edit(STORE, "SCAN_TRIES: Final = 5", "SCAN_TRIES: Final = 1"),),
        (faults("a_scan_begins_anew_when_folds_have_replaced_what_it_reads"),),
    ),
    Mutant(
        "what was read of a journal is kept behind a commit in doubt",
        (Edit("engines/journaled.py", "            self._term = -1\n            raise\n", "            raise\n"),),
        (tests("contract/test_stores.py::test_a_commit_in_doubt_that_has_arrived_is_read[zookeeper]"),),
    ),
    Mutant(
        "what was read of a journal is kept in the next term",
        (Edit("engines/journaled.py", "        if head.term != expect.term:\n", "        if False:\n"),),
        (
            tests(
                "contract/test_server_faults.py::test_a_commit_that_arrives_after_the_journal_was_read_is_found_by_the_next_term"
                "[zookeeper-changes1]"
            ),
        ),
    ),
    Mutant(
        "whoever waited for the journal reads it over what was added since",
        (
            Edit(
                "engines/journaled.py",
                "                return  # it was read meanwhile, and there may be more by now\n",
                "                pass\n",
            ),
        ),
        (tests("contract/test_stores.py::test_a_row_that_is_added_while_two_read_the_log_is_not_missed[zookeeper]"),),
    ),
)
