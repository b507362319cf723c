"""Counts of instructions: what a dump says, and how it compares with what is kept."""

import instructions
import pytest

DUMP = """\
# callgrind format
desc: Trigger: Client Request: state patch
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
summary: 0

fn=(1) f
1 7

totals: 53529967 9 9 9 9 9 3 20 100
"""


def test_a_dump_names_its_operation_and_what_it_cost():
    assert instructions.read_dump(DUMP) == ("state patch", {"instructions": 53_529_967, "lines": 123})


def test_the_dump_at_the_end_of_the_program_is_none_of_ours():
    assert instructions.read_dump("desc: Trigger: Program termination\nevents: Ir\ntotals: 12\n") is None


@pytest.mark.parametrize(("now", "before", "shown"), [(110, 100, "+10.0%"), (95, 100, "-5.0%"), (5, None, "new")])
def test_changes_are_shares_of_what_was_kept(now, before, shown):
    assert instructions.change(now, before) == shown


def test_every_operation_that_is_kept_is_kept_for_both_engines():
    kept = instructions.read_kept()
    assert set(kept) == set(instructions.COUNTED)
    for engines in kept.values():
        assert set(engines) == set(instructions.ENGINES)
        assert engines["sqlite"].keys() == engines["memory"].keys()
