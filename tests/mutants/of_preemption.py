"""Bugs in preemption: who may press, what the holder keeps, and what a crash makes of it."""

from typing import Final

from mutant import Edit, Mutant, tests
from of_rules import story

MUTANTS: Final = (
    Mutant(
        "an equal priority preempts",
        (Edit("core/preempting.py", "lease.priority >= ask.priority", "lease.priority > ask.priority"),),
        (tests(story("preempt")),),
    ),
    Mutant(
        "preemption takes back what was promised",
        (
            Edit(
                "core/preempting.py",
                "            end_ms = max(lease.deadline_ms, books.now_ms + books.limits.preempt_grace_ms)",
                "            end_ms = books.now_ms + books.limits.preempt_grace_ms\n"
                "            lease.deadline_ms = min(lease.deadline_ms, end_ms)",
            ),
        ),
        (tests(story("preempt")),),
    ),
    Mutant(
        "a preempted lease may be renewed for ever",
        (
            Edit(
                "core/preempting.py",
                "lease.hold_end_ms = end_ms if lease.hold_end_ms is None else min(end_ms, lease.hold_end_ms)\n",
                "lease.hold_end_ms = lease.hold_end_ms or end_ms + 86_400_000\n",
            ),
        ),
        (tests(story("preempt")),),
    ),
    Mutant(
        "a crash forgets which leases were preempted",
        (Edit("core/preempting.py", "            grants.keep(books, lease)\n", ""),),
        (
            tests(
                "core/test_preempting.py::test_a_renewal_that_nobody_wrote_down_is_kept_by_the_mark_that_came_after_it"
            ),
        ),
    ),
    Mutant(
        "a holder is told time and again that its lease is asked for",
        (Edit("client/hold.py", "            self._asked = tuple(self._watchers)\n", ""),),
        (tests("clients/test_hold.py::test_everybody_who_works_under_it_is_told_once_that_it_is_asked_for"),),
    ),
)
