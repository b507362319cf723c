"""Bugs in the engine on PostgreSQL. Each hunt starts a server of its own, which takes about a second."""

from typing import Final

from mutant import Edit, Mutant, Picked, tests

STORE: Final = "engines/postgres.py"
TABLES: Final = "engines/postgres_tables.py"


def promised(*names: str) -> Picked:
    """Of what every engine promises."""
    return tests(*(f"contract/test_engines.py::test_{name}" for name in names))


def stored(name: str) -> Picked:
    """Of what the journal relies on in every store."""
    return tests(f"contract/test_stores.py::test_{name}[postgres]")


def broken(*names: str) -> Picked:
    """Of what holds on every server when something breaks."""
    return tests(*(f"contract/test_server_faults.py::test_{name}" for name in names))


def own(*names: str) -> Picked:
    return tests(*(f"contract/test_postgres_faults.py::test_{name}" for name in names))


MUTANTS: Final = (
    Mutant(
        "PostgreSQL: a commit does not look whether the head has moved",
        (Edit(TABLES, "    WHERE term = %(old_term)b AND", "    WHERE true OR term = %(old_term)b AND"),),
        (promised("a_deposed_writer_commits_nothing[postgres]"),),
    ),
    Mutant(
        "PostgreSQL: a commit does not compare the term",
        (Edit(TABLES, "WHERE term = %(old_term)b AND beat", "WHERE beat"),),
        (promised("term_beat_and_rev_are_each_compared[postgres-term]"),),
    ),
    Mutant(
        "PostgreSQL: a commit is acknowledged before it was sent",
        (
            Edit(
                STORE,
                "await self._front.ask(move, writes=True)",
                "self._sent = asyncio.ensure_future(self._front.ask(move, writes=True))",
            ),
        ),
        (promised("a_deposed_writer_commits_nothing[postgres]"),),
    ),
    Mutant(
        "PostgreSQL: a commit need not be on the disk",
        (Edit(TABLES, "    AND current_setting('synchronous_commit') <> 'off'\n", ""),),
        (tests("contract/test_postgres.py::test_a_setting_that_becomes_unsafe_under_us_stops_the_next_commit"),),
    ),
    Mutant(
        "PostgreSQL: the row of a commit is added by another statement",
        (Edit(TABLES, "SELECT %(number)b::bigint, %(row)b::bytea FROM moved)", "VALUES (%(number)b, %(row)b))"),),
        (promised("a_batch_that_is_refused_leaves_no_trace_of_any_change[postgres]"),),
    ),
    Mutant(
        "PostgreSQL: a scan is in no order",
        (Edit(TABLES, "ORDER BY key {way}, rest {way} LIMIT", "ORDER BY sha256(key) {way} LIMIT"),),
        (promised("a_scan_has_bounds_a_limit_and_a_direction[postgres]"),),
    ),
    Mutant(
        "PostgreSQL: long keys that begin alike are in no order",
        (Edit(TABLES, "ORDER BY key {way}, rest {way} LIMIT", "ORDER BY key {way} LIMIT"),),
        (tests("contract/test_postgres.py::test_keys_too_long_for_an_index_are_kept_in_their_order"),),
    ),
    Mutant(
        "PostgreSQL: a scan misses the key that it begins with",
        (Edit(TABLES, "WHERE (key, rest) >= (%(first)b", "WHERE (key, rest) > (%(first)b"),),
        (promised("a_scan_has_bounds_a_limit_and_a_direction[postgres]"),),
    ),
    Mutant(
        "PostgreSQL: a fold does not look whose term it is",
        (Edit(TABLES, "FROM @.reign WHERE term = %s FOR SHARE", "FROM @.reign WHERE term >= %s FOR SHARE"),),
        (stored("a_deposed_writer_folds_nothing"),),
    ),
    Mutant(
        "PostgreSQL: a takeover does not wait for the fold that is under way",
        (Edit(TABLES, "WHERE term = %s FOR SHARE", "WHERE term = %s"),),
        (own("appends_pass_a_fold_by_and_a_takeover_waits_for_it"),),
    ),
    Mutant(
        "PostgreSQL: a takeover leaves the reign as it was",
        (Edit(TABLES, "{REIGN if begins_term else ''}", ""),),
        (stored("a_fold_that_arrives_after_later_ones_changes_nothing"),),
    ),
    Mutant(
        "PostgreSQL: rows leave the journal before what they say is stored",
        (Edit(STORE, "            async with connection.transaction():\n", "            if True:\n"),),
        (own("a_fold_that_fails_takes_no_row_out"),),
    ),
    Mutant(
        "PostgreSQL: a fold that arrives late is carried out again",
        (Edit(STORE, " if last == upto else ():", ":"),),
        (stored("a_fold_that_arrives_after_later_ones_changes_nothing"),),
    ),
    Mutant(
        "PostgreSQL: a commit whose answer is lost is said not to have happened",
        (Edit(STORE, "(OutcomeUncertain if writes else EngineUnavailable)", "EngineUnavailable"),),
        (broken("a_commit_over_a_line_that_is_cut_is_in_doubt_and_the_next_term_tells[postgres-answers]"),),
    ),
    Mutant(
        "PostgreSQL: a standby that lacks commits is believed",
        (Edit(STORE, "        if (found.term, found.beat) < (", "        if (9**9, found.beat) < ("),),
        (own("a_standby_is_refused_and_one_that_took_over_too_early_is_noticed"),),
    ),
)
