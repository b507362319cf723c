"""Counts of instructions: what a dump says, and how it compares with what is kept."""

import instructions
import pytest

DUMP = """\
# callgrind format
desc: Trigger: Client Request: state patch
events: Ir
summary: 0

fn=(1) f
1 7

totals: 53529967
"""


def test_a_dump_names_its_operation_and_its_instructions():
    assert instructions.read_dump(DUMP) == ("state patch", 53_529_967)


def test_the_dump_at_the_end_of_the_program_is_none_of_ours():
    assert instructions.read_dump("desc: Trigger: Program termination\ntotals: 12\n") is None


@pytest.mark.parametrize(("now", "before", "shown"), [(110, 100, "+10.0%"), (95, 100, "-5.0%"), (5, None, "new")])
def test_changes_are_shares_of_what_was_kept(now, before, shown):
    assert instructions.change(now, before) == shown


def test_every_operation_that_is_kept_is_kept_for_both_engines():
    kept = instructions.read_kept()
    assert set(kept) == set(instructions.ENGINES)
    assert kept["sqlite"].keys() == kept["memory"].keys()
