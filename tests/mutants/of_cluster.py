"""Bugs where several servers share an engine: who may speak, whom a request goes to, and who waits for nobody."""

from typing import Final

from mutant import SIM_OF_SEVERAL, Edit, Mutant, tests

STANDBY: Final = "grantor/test_standby.py"
FORWARDING: Final = "server/test_forwarding.py"

LEADING: Final = (
    Mutant(
        "a candidate waits for less than its clock can tell",
        (Edit("grantor/leadership.py", "max(left_s, TICK_S)", "left_s"),),
        (
            tests(
                "grantor/test_leadership.py::test_a_candidate_with_next_to_nothing_left_to_wait_lets_the_clock_move_on"
            ),
        ),
    ),
    Mutant(
        "a commit that came back after trust had ended is acknowledged",
        (Edit("grantor/grantor.py", "            if not self._leadership.trusted():", "            if False:"),),
        (tests(f"{STANDBY}::test_a_commit_that_comes_back_after_trust_has_ended_is_told_only_by_a_new_term"),),
    ),
    Mutant(
        "a reply whose maker had to wait leaves after trust has ended",
        (
            Edit(
                "grantor/grantor.py",
                "        if self.leads:\n            send_all(parcels)",
                "        if self.serving:\n            send_all(parcels)",
            ),
        ),
        (tests(f"{STANDBY}::test_a_reply_whose_maker_had_to_wait_does_not_leave_after_trust_has_ended"),),
    ),
    Mutant(
        "whoever hangs on a commit of a replaced leader is told nothing",
        (Edit("grantor/leadership.py", "        on_other()\n", ""),),
        (tests(f"{STANDBY}::test_who_hangs_on_a_commit_that_came_back_too_late_is_told_as_soon_as_another_leads"),),
    ),
    Mutant(
        "a leader does not beat while it loads",
        (Edit("grantor/leadership.py", "while not self.alone and not", "while False and not"),),
        (tests(f"{STANDBY}::test_a_leader_that_loads_for_longer_than_the_ttl_stays_the_leader"),),
    ),
    Mutant(
        "a member takes over before the head has stood still for the ttl",
        (Edit("grantor/leadership.py", "self.seen, since = now_seen, self._clock()", "self.seen = now_seen"),),
        (tests(f"{STANDBY}::test_a_member_leads_when_the_head_stood_still_for_the_ttl_by_its_own_clock"),),
    ),
)

SIMULATED: Final = (
    Mutant(
        "a leader whose trust has ended goes on to answer",
        (
            Edit("grantor/grantor.py", "        if boot_now_ms >= self._leadership.until_ms:", "        if False:"),
            Edit(
                "grantor/grantor.py",
                "        if self.leads:\n            send_all(parcels)",
                "        if self.serving:\n            send_all(parcels)",
            ),
        ),
        (SIM_OF_SEVERAL,),
    ),
    Mutant(
        "a member takes over at once, whoever leads",
        (Edit("grantor/leadership.py", "or seen.member == self._member:", "or True:"),),
        (SIM_OF_SEVERAL,),
    ),
    Mutant(
        "a term is not above the one before it",
        (Edit("grantor/leadership.py", "term=seen.term + 1,", "term=max(seen.term, 1),"),),
        (SIM_OF_SEVERAL,),
    ),
    Mutant(
        "a new leader begins anew with the tokens",
        (Edit("grantor/leadership.py", "token=seen.token, seq=seen.seq", "token=0, seq=seen.seq"),),
        (SIM_OF_SEVERAL,),
    ),
    Mutant(
        "a commit without an answer is said to have happened",
        (
            Edit(
                "grantor/leadership.py", "            return self.seen.beat >= head.beat\n", "            return True\n"
            ),
        ),
        (SIM_OF_SEVERAL,),
    ),
    Mutant(
        "a leader that is idle does not beat",
        (
            Edit(
                "grantor/grantor.py",
                "BEAT_MS if self._leadership.alone else min(BEAT_MS, self._leadership.beat_ms)",
                "BEAT_MS",
            ),
        ),
        (SIM_OF_SEVERAL,),
    ),
    Mutant(
        "a new leader does not read what the last one left in the journal",
        (Edit("engines/journaled.py", "            await self._fold_all()\n", "            pass\n"),),
        (SIM_OF_SEVERAL,),
    ),
)

FORWARDED: Final = (
    Mutant(
        "requests of one connection are passed on side by side",
        (Edit("server/forwarding.py", "                await asyncio.wait({before})", "                pass"),),
        (tests(f"{FORWARDING}::test_they_are_so_also_if_the_way_there_is_not_the_same_for_all"),),
    ),
    Mutant(
        "what was passed on is passed on again",
        (Edit("server/forwarding.py", "BY not in exchange.headers and ", ""),),
        (tests(f"{FORWARDING}::test_what_was_passed_on_once_goes_no_further"),),
    ),
    Mutant(
        "what may have happened is said not to have",
        (
            Edit(
                "server/forwarding.py",
                'Refusal.UNAVAILABLE if exchange.method == "GET" else Refusal.OUTCOME_UNKNOWN',
                "Refusal.UNAVAILABLE",
            ),
        ),
        (tests(f"{FORWARDING}::test_what_may_have_happened_is_said_to_be_unknown_and_a_look_is_not"),),
    ),
    Mutant(
        "a request waits for a leader that has been replaced",
        (Edit("server/forwarding.py", "if line.member != leader:", "if False:"),),
        (tests(f"{FORWARDING}::test_nobody_waits_for_a_leader_that_has_been_replaced"),),
    ),
    Mutant(
        "anybody can put a server on the list",
        (Edit("server/cluster.py", "headers.get(TO) != self._member.encode()", "False"),),
        (tests("server/test_cluster.py::test_only_who_knows_this_run_by_its_name_is_heard"),),
    ),
)

MUTANTS: Final = (*LEADING, *SIMULATED, *FORWARDED)
