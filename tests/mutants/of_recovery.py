"""Bugs in what outlives a process: terms, commits and the log."""

from typing import Final

from mutant import SIM, Edit, Mutant, tests

TERMS: Final = (
    Mutant(
        "after a restart tokens begin again",
        (
            Edit(
                "grantor/grantor.py",
                "token=head.token, seq=head.seq, now_ms=head.clock_ms)",
                "token=0, seq=head.seq, now_ms=head.clock_ms)",
            ),
        ),
        (SIM, tests("grantor/test_failures.py::test_a_new_term_begins_and_tokens_rise")),
        number=1,
        twin="Redis and PostgreSQL after a failover",
    ),
    Mutant(
        "after a restart the numbers of events are used again",
        (
            Edit(
                "grantor/grantor.py",
                "token=head.token, seq=head.seq, now_ms=head.clock_ms)",
                "token=head.token, seq=max(0, head.seq - 1), now_ms=head.clock_ms)",
            ),
        ),
        (SIM,),
        number=17,
        twin="etcd #17780",
    ),
    Mutant(
        "a restart forgets all leases",
        (
            Edit(
                "core/loading.py",
                "        _load_lease(books, thing, deadlines.get(thing.id))",
                "        return",
            ),
        ),
        (SIM, tests("grantor/test_commits.py::test_after_a_crash_every_lease_has_its_largest_ttl")),
        number=3,
        twin="Redis as it comes",
    ),
    Mutant(
        "a restart trusts the deadline that was stored with the grant",
        (
            Edit(
                "core/loading.py",
                "    lease.batch, lease.timer_ms, lease.deadline_ms = 0, DEAD, books.now_ms",
                "    lease.batch, lease.timer_ms = 0, DEAD",
            ),
            Edit(
                "core/loading.py",
                "        deadline_ms = promised_end_ms(lease, began_ms + lease.ttl_ms_max)",
                "        deadline_ms = max(lease.deadline_ms, books.now_ms)",
            ),
        ),
        (SIM,),
        number=4,
    ),
    Mutant(
        "a restart forgets who waits",
        (
            Edit(
                "core/loading.py",
                '("i", "p", "q", "m", "g", "r", "o", "h", "l", "w", "a", "d", "c")',
                '("i", "p", "q", "m", "g", "r", "o", "h", "l", "a", "d", "c")',
            ),
        ),
        (SIM, tests("core/test_transcripts.py::test_the_story_still_goes_like_this[restart_by_crash]")),
    ),
    Mutant(
        "a restart forgets which scopes are closed",
        (
            Edit(
                "core/loading.py",
                '("i", "p", "q", "m", "g", "r", "o", "h", "l", "w", "a", "d", "c")',
                '("i", "p", "q", "m", "g", "r", "o", "h", "l", "w", "a", "c")',
            ),
        ),
        (SIM, tests("core/test_transcripts.py::test_the_story_still_goes_like_this[cooldown]")),
    ),
    Mutant(
        "attempts are remembered only until the next restart",
        (
            Edit(
                "core/attempts.py",
                "    books.keep(attempt_key(holder, key), attempt)\n\n\ndef expire",
                "\n\ndef expire",
            ),
        ),
        (SIM, tests("core/test_attempts.py")),
        number=10,
    ),
    Mutant(
        "the farewell of an earlier term counts after a crash",
        (
            Edit(
                "grantor/storing.py",
                "limit=1) if seen.farewell else []",
                "limit=1)",
            ),
            Edit(
                "grantor/storing.py",
                "    return farewell if farewell is not None and farewell.term == seen.term else None",
                "    return farewell",
            ),
        ),
        (SIM, tests("grantor/test_commits.py::test_a_farewell_counts_for_the_next_term_only")),
    ),
    Mutant(
        "a longer ttl that was promised by a renewal is not written down",
        (Edit("core/leases.py", "    if ttl_ms > lease.ttl_ms_max:", "    if False:"),),
        (tests("core/test_durability.py::test_a_renewal_that_promises_more_than_ever_is_written_down"),),
    ),
    Mutant(
        "leases lapse by the wall clock",
        (
            Edit(
                "grantor/grantor.py",
                "        reply = self._ledger.apply(command, now_ms)\n",
                "        self._wall_seen = max(getattr(self, '_wall_seen', 0), self._wall_ms())\n"
                "        now_ms = self._wall_seen - self._wall_began\n"
                "        reply = self._ledger.apply(command, now_ms)\n",
            ),
            Edit(
                "grantor/grantor.py",
                "        self._ledger, self.books = ledger, ledger.books",
                "        self._wall_began = self._wall_ms() - head.clock_ms\n"
                "        self._ledger, self.books = ledger, ledger.books",
            ),
        ),
        (SIM,),
        number=7,
        twin="Redis",
    ),
    Mutant(
        "a grantor that was frozen lets all leases lapse when it wakes up",
        (Edit("clock.py", "self.now_ms += min(passed_ms, LEAP_MS_MAX)", "self.now_ms += passed_ms"),),
        (tests("grantor/test_time.py::test_a_grantor_that_was_frozen_does_not_kill_the_leases"),),
    ),
    Mutant(
        "an attempt that was used a moment ago is forgotten for another",
        (
            Edit(
                "core/attempts.py",
                "    return bool(line) and books.now_ms >= line[0].until_ms - early_ms",
                "    return bool(line) and early_ms > 0",
            ),
        ),
        (tests("core/test_attempts.py"),),
    ),
    Mutant(
        "after a restart attempts are forgotten by their names, not by their age",
        (Edit("core/loading.py", "sorted(ended, key=lambda each: each.until_ms)", "ended"),),
        (tests("core/test_attempts.py"),),
    ),
    Mutant(
        "after a restart leases are listed by their ids, and pages of them miss some",
        (Edit("core/loading.py", "in sorted(books.leases.values(), key=_token)}", "in books.leases.values()}"),),
        (tests("core/test_durability.py"),),
    ),
    Mutant(
        "what arrives is decided at the time of what was decided before",
        (
            Edit(
                "server/service.py",
                "            self.grantor.look()\n",
                "            self.grantor.serving or self.grantor.look()\n",
            ),
        ),
        (SIM,),
    ),
    Mutant(
        "time that stood still is made up for",
        (Edit("grantor/grantor.py", "            self._clock.stand(books.now_ms)\n", "            pass\n"),),
        (tests("grantor/test_time.py::test_time_that_stood_still_is_not_made_up_for"),),
    ),
    Mutant(
        "a batch grows for as long as the one before it is on its way",
        (Edit("core/ledger.py", "return self.books.lapsed >= LAPSES_PER_BATCH_MAX", "return False"),),
        (tests("core/test_many_lapses.py", "grantor/test_time.py"),),
    ),
    Mutant(
        "a ledger that had to rest goes on when it happens to be looked at",
        (Edit("grantor/grantor.py", "        if rested:\n", "        if False:\n"),),
        (tests("grantor/test_time.py"),),
    ),
    Mutant(
        "what falls due is looked at every six seconds",
        (
            Edit(
                "grantor/grantor.py",
                "        self._alarm_ms = min(self._ledger.due_ms(), now_ms + TURN_MS_MAX)",
                "        self._alarm_ms = now_ms + 6_000",
            ),
        ),
        (SIM, tests("grantor/test_time.py::test_the_loop_turns_also_when_it_has_nothing_to_do")),
        number=16,
    ),
    Mutant(
        "a grantor whose trust has ended goes on answering",
        (
            Edit(
                "grantor/grantor.py",
                "        if boot_now_ms >= self._leadership.until_ms:",
                "        if False:",
            ),
        ),
        (tests("grantor/test_time.py::test_a_grantor_whose_trust_ended_says_nothing_until_a_commit_brings_it_back"),),
    ),
)

COMMITS: Final = (
    Mutant(
        "a lease that was given back is forgotten before the log has it",
        (Edit("core/books.py", "        if lease.batch >= taken:\n            break\n", ""),),
        (tests("core/test_ended_in_memory.py"),),
    ),
    Mutant(
        "leases that were given back crowd out why others were lost",
        (Edit("core/leases.py", '(books.released if lease.status == "released" else books.ended)', "books.ended"),),
        (tests("core/test_ended_in_memory.py"),),
    ),
    Mutant(
        "a reply leaves before its change is durable",
        (Edit("grantor/grantor.py", "        elif reply.after > self._durable:", "        elif False:"),),
        (SIM, tests("grantor/test_commits.py::test_a_reply_leaves_only_after_its_commit")),
        number=2,
        twin="NATS as it comes; etcd #14370",
    ),
    Mutant(
        "a commit is sent while another is on its way",
        (
            Edit(
                "grantor/grantor.py",
                "        if books.written == books.batch and self._under_way is None:\n",
                "        if books.written == books.batch:\n",
            ),
        ),
        (tests("grantor/test_commits.py::test_newcomers_gather_while_a_batch_is_on_its_way"),),
    ),
    Mutant(
        "the replies of the next batch leave with this one",
        (
            Edit(
                "grantor/grantor.py",
                "        send_all(self._parcels.pop(commit.number, []))",
                "        for number in list(self._parcels):\n            send_all(self._parcels.pop(number))",
            ),
        ),
        (SIM,),
        number=31,
    ),
    Mutant(
        "a refusal or a read tells what is not durable yet",
        (
            Edit(
                "core/books.py",
                "self.written if after is None else after",
                "0 if after is None else after",
            ),
        ),
        (SIM, tests("core/test_durability.py::test_a_grant_and_whoever_saw_it_wait_for_its_batch")),
        number=36,
    ),
    Mutant(
        "a change and its event are two commits",
        (
            Edit(
                "grantor/grantor.py",
                "            await commit.settled()\n",
                "            await commit.settled()\n"
                "            await self._leadership.commit(commit.later_head, commit.later)\n",
            ),
            Edit(
                "grantor/grantor.py",
                "                commit.outcome = self._leadership.commit(commit.head, changes)\n",
                "                half = len(changes) // 2\n"
                "                commit.later, commit.later_head = changes[half:], head_after(commit.head, batch)\n"
                "                commit.outcome = self._leadership.commit(commit.head, changes[:half])\n",
            ),
            Edit(
                "grantor/commit.py",
                '__slots__ = ("began_ms",',
                '__slots__ = ("later", "later_head", "began_ms",',
            ),
        ),
        (SIM, tests("grantor/test_commits.py::test_newcomers_gather_while_a_batch_is_on_its_way")),
        number=22,
    ),
    Mutant(
        "a commit of which nobody knows is told to have happened",
        (
            Edit(
                "grantor/leadership.py",
                "            return self.seen.beat >= head.beat",
                "            return True",
            ),
        ),
        (SIM, tests("grantor/test_failures.py::test_a_commit_that_did_not_happen_is_refused_and_forgotten")),
        number=29,
    ),
    Mutant(
        "an event is shown before it is durable",
        (
            Edit(
                "grantor/grantor.py",
                "            commit.outcome = self._leadership.commit(",
                "            self.feed.publish(commit.bulletin, batch.seq)\n"
                "            commit.outcome = self._leadership.commit(",
            ),
        ),
        (tests("grantor/test_commits.py::test_events_reach_the_feed_in_order_and_only_when_durable"),),
        number=36,
    ),
    Mutant(
        "a reader that comes back misses the newest event of the log",
        (
            Edit(
                "grantor/replay.py",
                "        if tail.page and tail.page[0].seq <= self._upto:",
                "        if tail.page and tail.page[0].seq < self._upto:",
            ),
        ),
        (
            tests(
                "server/test_stream_order.py::test_a_reader_that_resumes_while_the_world_goes_on_gets_each_event_once"
            ),
        ),
    ),
    Mutant(
        "old events are forgotten, and some newer ones with them",
        (
            Edit(
                "grantor/retention.py",
                "        old = [record for record in page if _seq(record.key) <= horizon]",
                "        old = [record for record in page if _seq(record.key) <= horizon + 5]",
            ),
        ),
        (
            tests(
                "grantor/test_retention.py"
                "::test_the_newest_events_are_kept_and_a_pass_begins_when_there_are_a_tenth_more"
            ),
        ),
    ),
)

SPOTS: Final = (
    Mutant(
        "the loop waits for the disk while a holder is in a hurry",
        (
            Edit(
                "grantor/grantor.py",
                "self._begin_commit(here=books.timers.hurry_ms <= books.now_ms)",
                "self._begin_commit(here=True)",
            ),
        ),
        (tests("grantor/test_on_the_spot.py"),),
    ),
    Mutant(
        "only the grant of a short lease is a hurry, not its renewal",
        (
            Edit(
                "core/timers.py",
                "self.hurry_ms and isinstance(thing, Lease):",
                "self.hurry_ms and isinstance(thing, Lease) and thing.timer_ms == DEAD:",
            ),
        ),
        (tests("grantor/test_on_the_spot.py"),),
    ),
    Mutant(
        "behind one that is on its way a commit is made on the spot, and told of first",
        (
            Edit(
                "grantor/grantor.py",
                "            self._begin_commit()\n        if self._stopping",
                "            self._begin_commit(here=True)\n        if self._stopping",
            ),
        ),
        (tests("grantor/test_on_the_spot.py"),),
    ),
)

MUTANTS: Final = (*TERMS, *COMMITS, *SPOTS)
