"""Bugs in moving a ledger from one engine to another."""

from typing import Final

from mutant import Edit, Mutant, tests

MOVING: Final = "grantor/moving.py"
FILE: Final = "engines/movefile.py"

MUTANTS: Final = (
    Mutant(
        "an imported ledger goes on from the old token",
        (
            Edit(
                MOVING,
                "head = msgspec.structs.replace(jumped(contents, known, now_ms=now_ms), member=IMPORT)",
                "head = msgspec.structs.replace("
                "jumped(contents, known, now_ms=now_ms), member=IMPORT, token=summary.head.token)",
            ),
        ),
        (tests("contract/test_moving.py::test_tokens_and_terms_go_on_above_all_that_were[sqlite]"),),
    ),
    Mutant(
        "an import drops the last record of a batch",
        (Edit(MOVING, "head.beat + 1), batch)", "head.beat + 1), batch[:-1])"),),
        (tests("contract/test_moving.py::test_all_of_it_comes_to_every_engine_and_back[sqlite]"),),
    ),
    Mutant(
        "what was imported is counted and not compared",
        (Edit(MOVING, "if digest.hex != summary.digest:", "if False:"),),
        (tests("contract/test_moving.py::test_a_record_that_is_dropped_or_changed_is_noticed"),),
    ),
    Mutant(
        "half an import can be served",
        (Edit(MOVING, '[DeleteRange("", LAST), UNFINISHED]', '[DeleteRange("", LAST)]'),),
        (tests("contract/test_moving.py::test_no_server_loads_half_an_import[sqlite]"),),
    ),
    Mutant(
        "an import goes into an engine that somebody has served",
        (Edit(MOVING, "    elif seen.member == IMPORT:", "    elif seen.member:"),),
        (tests("contract/test_moving.py::test_an_engine_that_somebody_has_served_is_refused_as_it_is[sqlite]"),),
    ),
    Mutant(
        "an export deposes a server that lives",
        (Edit(MOVING, "        if newest != first and not newest.farewell:", "        if False:"),),
        (tests("contract/test_moving.py::test_a_server_that_lives_is_not_deposed"),),
    ),
    Mutant(
        "an export does not notice that somebody else has written meanwhile",
        (
            Edit(
                MOVING, "            await mover.leave()\n            movefile.publish", "            movefile.publish"
            ),
        ),
        (tests("contract/test_moving.py::test_what_somebody_wrote_over_is_no_export"),),
    ),
    Mutant(
        "the checksum of a file is not looked at",
        (Edit(FILE, "if (last.records, last.sha256) != (counts.records, digest.hex):", "if False:"),),
        (tests("contract/test_movefile.py::test_a_damaged_file_is_refused_before_anything_is_changed"),),
    ),
)
