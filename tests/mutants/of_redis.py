"""Bugs in the engine on Redis. A server of its own is started for each in a tenth of a second."""

from typing import Final

from mutant import Edit, Mutant, tests

STORE: Final = "engines/redis.py"
ADMISSION: Final = "engines/redis_admission.py"
SCRIPTS: Final = "engines/redis_scripts.py"

MUTANTS: Final = (
    Mutant(
        "on Redis a commit does not look whether the head has moved",
        (Edit(SCRIPTS, "if (found[1] or '0/0/0') ~= ARGV[1] then", "if false then"),),
        (tests("contract/test_engines.py::test_a_deposed_writer_commits_nothing[redis]"),),
    ),
    Mutant(
        "on Redis a new term is not compared",
        (Edit(STORE, 'return f"{head.term}/{head.beat}/{head.rev}"', 'return f"0/{head.beat}/{head.rev}"'),),
        (tests("contract/test_engines.py::test_term_beat_and_rev_are_each_compared[redis-term]"),),
    ),
    Mutant(
        "on Redis a commit returns before the server has answered",
        (
            Edit(
                STORE,
                "                answers = [await _answer(wire) for _ in commands]",
                "                answers = [1] if writes else [await _answer(wire) for _ in commands]",
            ),
        ),
        (
            tests(
                "contract/test_server_faults.py::"
                "test_a_commit_over_a_line_that_is_cut_is_in_doubt_and_the_next_term_tells[redis-answers]"
            ),
        ),
    ),
    Mutant(
        "on Redis a commit in doubt is sent again",
        (Edit(STORE, "        except ScriptUnknown:\n", "        except (ScriptUnknown, OutcomeUncertain):\n"),),
        (tests("contract/test_redis_faults.py::test_a_commit_is_sent_once_whatever_becomes_of_the_answer"),),
        twin="redis-py, retries by default since version 6",
    ),
    Mutant(
        "on Redis a fold does not compare the term",
        (Edit(SCRIPTS, "if found[1] ~= ARGV[1] then\n  return found[3] or ''\nend\n", ""),),
        (
            tests(
                "contract/test_redis_folds.py::test_a_part_of_a_fold_that_arrives_late_changes_nothing",
            ),
        ),
    ),
    Mutant(
        "on Redis a part of a fold that was given up is stored when it arrives",
        (Edit(SCRIPTS, "if found[2] ~= ARGV[2] then", "if false then"),),
        (tests("contract/test_redis_folds.py::test_a_part_of_a_fold_that_arrives_late_changes_nothing"),),
    ),
    Mutant(
        "on Redis rows are taken out of the journal before all that they say is stored",
        (Edit(STORE, 'last = upto if place == len(parts) else ""', 'last = upto if place == 1 else ""'),),
        (tests("contract/test_redis_folds.py::test_a_fold_that_breaks_off_anywhere_loses_nothing"),),
        number=22,
    ),
    Mutant(
        "on Redis a name goes into the order of keys by its length",
        (Edit(SCRIPTS, "= 0, ARGV[place]", "= #ARGV[place], ARGV[place]"),),
        (tests("contract/test_engines.py::test_keys_are_ordered_by_their_utf8_bytes[redis]"),),
    ),
    Mutant(
        "on Redis a scan ends with its first page",
        (
            Edit(
                STORE,
                "            if not page:\n                break",
                "            if not page or found:\n                break",
            ),
        ),
        (tests("contract/test_engines.py::test_ten_thousand_records_in_one_batch[redis]"),),
    ),
    Mutant(
        "on Redis only the first keys of a range are deleted",
        (Edit(SCRIPTS, "    return (place - 3) / 2\n", "    break\n"),),
        (tests("contract/test_redis.py::test_what_is_more_than_one_call_may_do_takes_several"),),
    ),
    Mutant(
        "a Redis that does not sync is taken for a durable one",
        (Edit(ADMISSION, 'if weakness and place.durability != "weak":', "if False:"),),
        (
            tests(
                "contract/test_redis.py::test_a_server_that_does_not_sync_every_write_is_refused_unless_that_is_allowed"
            ),
        ),
        number=28,
        twin="Redis as it is packaged",
    ),
    Mutant(
        "nobody notices that a replica of Redis took over without the newest commits",
        (
            Edit(
                STORE,
                "if (found.term, found.beat) < (seen.term, seen.beat) or found.token < seen.token:",
                "if False:",
            ),
        ),
        (
            tests(
                "contract/test_redis_faults.py::"
                "test_a_replica_that_took_over_too_early_has_lost_commits_and_that_is_noticed"
            ),
        ),
    ),
    Mutant(
        "a replica of Redis that took over without the newest folds is taken for the primary that had them",
        (Edit(STORE, "if self._bound and self._server not in (None, server):", "if False:"),),
        (
            tests(
                "contract/test_redis_faults.py::"
                "test_a_replica_that_took_over_without_the_newest_folds_has_them_folded_again"
            ),
        ),
    ),
)
