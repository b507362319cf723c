"""Bugs in the SDK: what a holder believes, and what it does about it."""

from typing import Final

from mutant import SIM, Edit, Mutant, tests

TRUST: Final = (
    Mutant(
        "trust is counted from when the reply came",
        (
            Edit(
                "client/hold.py",
                "        self._trust = seen.trust  # what was promised for the longest",
                "        waited_s = seen.trust.waited_s\n"
                "        self._trust = Trust(clock() - waited_s, waited_s, seen.trust.remaining_s)",
            ),
            Edit(
                "client/hold.py",
                "            now = self._clock()\n            if self.reason is not None or",
                "            now = self._clock()\n"
                "            trust = Trust(now, 0.0, trust.remaining_s)\n"
                "            if self.reason is not None or",
            ),
        ),
        (SIM, tests("clients/test_hold.py::test_trust_counts_from_the_end_of_a_wait")),
        number=13,
    ),
    Mutant(
        "the time is taken after the request has left",
        (
            Edit(
                "client/transport.py",
                "            return self._reply(url, line.exchange(url, asked), sent_at)",
                "            return self._reply(url, line.exchange(url, asked), boot_s())",
            ),
        ),
        (tests("clients/test_transport.py::test_the_time_is_taken_before_the_request_leaves"),),
        number=13,
    ),
    Mutant(
        "a reply that comes late brings a lost lease back",
        (
            Edit(
                "client/hold.py",
                "if self.reason is not None or not trust.live(now) or (self.entries and now >= self.stop_at):",
                "if self.reason == RELEASED:",
            ),
            Edit(
                "client/hold.py",
                "            self.warned = False\n            return True",
                "            self.warned, self.reason = False, None\n            return True",
            ),
        ),
        (tests("clients/test_hold.py::test_a_reply_after_the_soft_stop_revives_nothing"),),
        number=19,
        twin="found by the first trial of the simulator",
    ),
    Mutant(
        "trust ends when the promise does, without a margin",
        (
            Edit(
                "trust.py",
                "self.waited_s + self.remaining_s - spared_s",
                "self.waited_s + self.remaining_s - spared_s * 0",
            ),
        ),
        (tests("clients/test_hold.py::test_trust_ends_a_margin_before_the_promise"),),
    ),
    Mutant(
        "the time spent in a queue is counted twice",
        (
            Edit(
                "trust.py",
                "        return self.sent_at + self.waited_s + self.remaining_s - spared_s",
                "        return self.sent_at + 2 * self.waited_s + self.remaining_s - spared_s",
            ),
        ),
        (SIM, tests("clients/test_trust.py")),
    ),
    Mutant(
        "the older of two replies decides",
        (
            Edit(
                "client/hold.py",
                "            self._trust = max(self._trust, trust, key=lambda promise: promise.until)",
                "            self._trust = trust",
            ),
        ),
        (tests("clients/test_hold.py::test_a_slow_reply_takes_no_promise_back"),),
        number=43,
    ),
    Mutant(
        "work is told to stop only when trust has ended",
        (
            Edit(
                "trust.py",
                "        return self.until - min(SOFT_STOP_S_MAX, ttl_s * SOFT_STOP_SHARE)",
                "        return self.until",
            ),
        ),
        (tests("clients/test_hold.py::test_a_kept_lease_is_lost_at_the_soft_stop"),),
    ),
    Mutant(
        "whether a lease is over is left to the keeper, not asked of the clock",
        (
            Edit(
                "client/hold.py",
                "        self.lose(TRUST_ENDED)\n        return True\n",
                "        return False\n",
            ),
        ),
        (tests("clients/test_hold.py::test_trust_ends_a_margin_before_the_promise"),),
    ),
    Mutant(
        "the SDK decides by the wall clock",
        (Edit("clock.py", "    return time.clock_gettime(_BOOT_CLOCK)\n", "    return time.time()\n"),),
        (tests("clients/test_trust.py"),),
        number=41,
    ),
    Mutant(
        "a forked child takes its parent's lease for its own",
        (Edit("client/hold.py", "        return self._pid != os.getpid()", "        return False"),),
        (tests("clients/test_holding.py::test_a_forked_child_inherits_no_lease"),),
    ),
)

KEEPING: Final = (
    Mutant(
        "a lease is renewed when its ttl is over",
        (Edit("trust.py", "RENEW_SHARE: Final = 1 / 3", "RENEW_SHARE: Final = 1"),),
        (tests("clients/test_keeping.py::test_the_instants_of_a_lease_of_thirty_seconds"),),
        number=39,
    ),
    Mutant(
        "nobody is warned of a lease at risk",
        (Edit("client/keeping.py", "    if at_risk:\n", "    if False:\n"),),
        (tests("clients/test_keeping.py::test_without_renewals_the_lease_is_at_risk"),),
    ),
    Mutant(
        "the loss of a lease is told to nobody",
        (
            Edit(
                "client/hold.py",
                "        for watcher in tuple(self._watchers):\n            watcher.lost()\n",
                "",
            ),
        ),
        (tests("clients/test_hold.py::test_watchers_are_told_once"),),
        number=40,
    ),
    Mutant(
        "whoever loses its lease believes that somebody cancelled it",
        (
            Edit(
                "client/loop/blocks.py",
                "        return self._task.uncancel() <= self._cancelling_before and isinstance(exc",
                "        return False and isinstance(exc",
            ),
        ),
        (tests("clients/test_blocks.py::test_the_loss_cancels_the_task_and_says_so"),),
        number=40,
    ),
    Mutant(
        "the keeper takes a lost lease for a renewed one",
        (
            Edit(
                "client/keeper.py",
                '            if hold is not None and verdict.verdict == "lost":\n                self.drop(hold)',
                "            if False:\n                self.drop(hold)",
            ),
        ),
        (tests("clients/test_keeper.py::test_a_lost_verdict_ends_it_at_once"),),
        number=42,
    ),
    Mutant(
        "the keeper waits for the log",
        (
            Edit(
                "client/words.py",
                'threading.Thread(target=self._say_all, name="openintent-words", daemon=True).start()',
                "self._say_all()",
            ),
        ),
        (tests("clients/test_keeper.py::test_a_log_that_hangs_delays_no_soft_stop_and_no_heartbeat"),),
    ),
    Mutant(
        "a lease renewed for less time keeps the pace of before",
        (
            Edit(
                "client/keeper.py",
                "                self._renew_at = due\n                self._changed.notify_all()\n",
                "                pass\n",
            ),
        ),
        (
            tests(
                "clients/test_keeper_in_slow_motion.py::test_a_lease_renewed_for_less_time_than_before_sets_the_pace_from_then_on"
            ),
        ),
    ),
    Mutant(
        "a block gives its lease back before its trust has ended",
        (
            Edit("client/holder.py", "            hold_of(lease).release()\n", ""),
            Edit(
                "client/hold.py",
                "                self.reason = self.reason or RELEASED  # first",
                "                pass  # first",
            ),
            Edit(
                "client/hold.py",
                "            return not self._watchers and self.reason is not None\n",
                "            return not self._watchers\n",
            ),
        ),
        (tests("clients/test_blocks.py::test_trust_ends_before_the_release_is_sent"),),
    ),
    Mutant(
        "what a coordinator writes names no token",
        (
            Edit(
                "client/holder.py",
                "self._innermost(spaces_of_intent(intent_id))",
                'self._innermost(f"intent:{intent_id}")',
            ),
        ),
        (tests("clients/test_coordinating.py::test_writes_to_what_is_coordinated_name_the_coordinators_token"),),
    ),
)

ASKING: Final = (
    Mutant(
        "trust in a lease that came with others is counted from later",
        (Edit("client/replies.py", "bytes(answer.body), reply.sent_at)", "bytes(answer.body), reply.sent_at + 1)"),),
        (tests("clients/test_replies.py"),),
    ),
    Mutant(
        "leases that are given back together are believed in until the answer comes",
        (Edit("client/holder.py", "        for lease_id in ours:\n            self.end_trust(lease_id)\n", ""),),
        (tests("clients/test_many_leases.py"),),
    ),
    Mutant(
        "every slice of a wait is a new attempt",
        (
            Edit(
                "client/flows.py",
                "            return (yield from send(_slice(wish, attempt, wait_s, spare_s=spare_s)))",
                '            return (yield from send(_slice(wish, f"{attempt}-{now}", wait_s, spare_s=spare_s)))',
            ),
        ),
        (tests("clients/test_flows.py::test_every_slice_of_a_wait_is_the_same_attempt"),),
    ),
    Mutant(
        "a refusal is asked for again and again",
        (
            Edit(
                "client/flows.py",
                "        except (Unavailable, OutcomeUnknown) as exc:\n            failures += 1\n",
                "        except OpenIntentError as exc:\n            failures += 1\n",
            ),
        ),
        (tests("clients/test_flows.py::test_a_refusal_goes_to_the_caller"),),
        number=42,
    ),
    Mutant(
        "what may have happened is done a second time",
        (
            Edit(
                "client/flows.py",
                "    return call.repeatable if isinstance(exc, OutcomeUnknown) else worth_repeating(exc)",
                "    return worth_repeating(exc)",
            ),
        ),
        (tests("clients/test_flows.py::test_an_unknown_outcome_is_repeated_only_if_twice_is_once"),),
    ),
    Mutant(
        "whoever gives up leaves a lease behind",
        (
            Edit(
                "client/flows.py",
                "        yield from give_up(wish, attempt=attempt)\n        raise",
                "        raise",
            ),
        ),
        (tests("clients/test_flows.py::test_whoever_gives_up_on_an_unknown_outcome_takes_it_back"),),
    ),
    Mutant(
        "a reader that was cut off begins again at the present",
        (
            Edit(
                "client/following.py",
                "after=self.cursor, silence_s",
                "after=None, silence_s",
            ),
        ),
        (tests("clients/test_following.py::test_the_next_connection_goes_on_after_the_last_event"),),
    ),
    Mutant(
        "what a process announced that is gone is believed",
        (
            Edit(
                "embedded/stint.py",
                "        if seen is None or not seen.in_use:",
                "        if seen is None:",
            ),
        ),
        (tests("local/test_handover.py::test_what_a_server_left_behind_that_is_gone_is_not_believed"),),
    ),
)

CARRYING: Final = (
    Mutant(
        "a lost answer is taken for a request that never left",
        (
            Edit(
                "client/http/sync.py",
                "            except OSError as exc:\n                raise NoAnswer(_said(exc)) from exc",
                "            except OSError as exc:\n                raise NotSent(_said(exc)) from exc",
            ),
        ),
        (tests("clients/test_lines.py::test_what_may_have_arrived_is_not_sent_again"),),
    ),
    Mutant(
        "half an answer is taken for a whole one",
        (
            Edit(
                "client/http/messages.py",
                "        if self._chunks is not None or self._left is not None:\n            raise NoAnswer",
                "        if False:\n            raise NoAnswer",
            ),
        ),
        (tests("clients/test_messages.py::test_an_answer_that_breaks_off_is_none"),),
    ),
    Mutant(
        "the answer to a request that was cancelled is given to the next",
        (
            Edit(
                "client/http/awaited.py",
                "would be taken for the next answer\n            connection.close()\n            raise",
                "would be taken for the next answer\n            self._idle.put(origin, connection)\n            raise",
            ),
        ),
        (tests("clients/test_busy_lines.py::test_cancelling_closes_the_connection"),),
    ),
)

MUTANTS: Final = (*TRUST, *KEEPING, *ASKING, *CARRYING)
