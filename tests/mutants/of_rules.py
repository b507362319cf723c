"""Bugs in the rules: who gets a lease, for how long, and how it ends."""

from typing import Final

from mutant import SIM, Edit, Mutant, tests

COORDINATORS: Final = "core/test_coordinators.py"
STORIES: Final = "core/test_transcripts.py::test_the_story_still_goes_like_this"


def story(name: str) -> str:
    return f"{STORIES}[{name}]"


GRANTS: Final = (
    Mutant(
        "a repeated acquire is granted a second time",
        (
            Edit(
                "core/leases.py",
                "        known = attempts.find(books, ask.holder, command.attempt)\n        if known is not None:",
                "        known = None\n        if known is not None:",
            ),
        ),
        (SIM, tests(story("attempts"))),
        number=9,
        twin="FoundationDB, results unknown to the client",
    ),
    Mutant(
        "an attempt with another body is taken for the same",
        (
            Edit(
                "core/leases.py",
                "    if known.print != print_:\n        return books.reply(AttemptReused(known.key))\n    waiter =",
                "    waiter =",
            ),
        ),
        (tests(story("attempts")),),
        number=24,
    ),
    Mutant(
        "a waiter is granted under the token of the holder before it",
        (
            Edit(
                "core/waiting.py",
                "    lease = grants.grant(books, space, waiter.ask, waiter.ticket, waiter.attempt)",
                "    books.token -= 1\n"
                "    lease = grants.grant(books, space, waiter.ask, waiter.ticket, waiter.attempt)",
            ),
        ),
        (SIM, tests(story("queue_order_and_priority"))),
        number=18,
    ),
    Mutant(
        "a new coordinator gets no new token",
        (
            Edit(
                "core/grants.py",
                "    books.token += 1\n",
                '    books.token += not ask.space.startswith("coordinator:")\n',
            ),
        ),
        (
            tests(
                "core/test_coordinators.py::test_a_lapse_is_a_failover_in_both_logs_and_the_next_one_has_a_larger_token"
            ),
        ),
        number=21,
    ),
    Mutant(
        "a scope that covers everything stands in nobody's way",
        (Edit("core/scopes.py", '        return "", True', '        return "?", False'),),
        (SIM, tests("core/test_scope_index.py::test_overlapping_is_what_the_words_say")),
    ),
    Mutant(
        "what is held below a wide scope is not seen by whoever asks for all of it",
        (
            Edit(
                "core/scopes.py",
                "        return self._below_other(path, owner) if wide else None",
                "        return None",
            ),
        ),
        (SIM, tests("core/test_scope_index.py::test_weird_names_overlap_as_the_words_say")),
    ),
    Mutant(
        "`a/**` covers `ab` too",
        (
            Edit(
                "core/scopes.py",
                '    return inner_path == path or inner_path.startswith(path + "/")',
                "    return inner_path.startswith(path)",
            ),
        ),
        (tests("core/test_scope_index.py::test_weird_names_overlap_as_the_words_say"),),
    ),
    Mutant(
        "the cooldown of a scope is ignored",
        (Edit("core/waiting.py", "    if space.cooldowns.items:\n", "    if False:\n"),),
        (SIM, tests(story("cooldown"))),
    ),
    Mutant(
        "a write with a dead token is taken",
        (
            Edit(
                "core/intents.py",
                "        or stale(books, intent, holder=command.actor, token=command.token)\n        or _held",
                "        or _held",
            ),
        ),
        (tests(story("state_under_leases")),),
        number=8,
        twin="locks that nothing behind them asks for",
    ),
    Mutant(
        "a write under another agent's lease is taken",
        (Edit("core/intents.py", "    if space is not None:\n        for step", "    if False:\n        for step"),),
        (tests(story("state_under_leases")),),
    ),
    Mutant(
        "a write that saw an older version is taken",
        (
            Edit(
                "core/intents.py",
                "        or _held_by_another(books, command)\n        or version_differs(intent, command.expect)\n",
                "        or _held_by_another(books, command)\n",
            ),
        ),
        (tests(story("compare_and_set")),),
    ),
    Mutant(
        "a change of status with a dead token is taken",
        (
            Edit(
                "core/intents.py",
                "        or stale(books, intent, holder=command.actor, token=command.token)\n        or governance",
                "        or governance",
            ),
        ),
        (tests(f"{COORDINATORS}::test_a_change_of_status_by_the_token_of_a_part_is_refused_once_that_is_lost"),),
    ),
    Mutant(
        "whoever holds anything at all may write anywhere",
        (
            Edit(
                "core/looking.py",
                "    if any(_has(books, name, holder, token) for name in coordinators):",
                "    if any(_has(books, name, holder, token) for name in books.spaces):",
            ),
        ),
        (
            tests(
                f"{COORDINATORS}::"
                "test_the_token_of_another_coordinator_is_no_good_and_its_successor_is_nobodys_business"
            ),
        ),
    ),
    Mutant(
        "every instance of an agent has a voice in its quorum",
        (
            Edit(
                "core/governance.py",
                "{agent_name_of(each.actor): each.outcome for each in made}",
                "{each.actor: each.outcome for each in made}",
            ),
            Edit(
                "core/governance.py",
                "        approvers &= assigned\n",
                "        approvers = {each for each in approvers if agent_name_of(each) in assigned}\n",
            ),
        ),
        (tests("core/test_instances.py::test_an_agent_has_one_opinion_however_many_instances_it_has"),),
    ),
    Mutant(
        "a full registry forgets the dead agent that was heard of last",
        (
            Edit(
                "core/agents.py",
                "    gone = gone or min(",
                "    gone = gone or max(",
            ),
        ),
        (
            tests(
                "core/test_agents.py::"
                "test_a_full_registry_forgets_who_left_before_the_dead_and_of_these_who_was_silent_for_longest"
            ),
        ),
    ),
)

QUEUES: Final = (
    Mutant(
        "the last to come is the first to go",
        (
            Edit(
                "core/waiting.py",
                "attempt=command.attempt, order=books.order,",
                "attempt=command.attempt, order=-books.order,",
            ),
        ),
        (SIM, tests(story("queue_order_and_priority"))),
        number=11,
    ),
    Mutant(
        "the priority of a waiter is ignored",
        (Edit("model.py", "        return (-self.ask.priority, self.order)", "        return (0, self.order)"),),
        (tests(story("queue_order_and_priority")),),
    ),
    Mutant(
        "a newcomer overtakes those who wait",
        (
            Edit(
                "core/waiting.py",
                "    first = _ahead(space, ask, rank or (-ask.priority, BEHIND_ALL)) if space.lines.items else None",
                "    first = None",
            ),
        ),
        (SIM, tests(story("overtaking"))),
    ),
    Mutant(
        "a waiter whose request is over is granted",
        (
            Edit("core/waiting.py", "        if waiter.request and obstacle(", "        if obstacle("),
            Edit(
                "core/waiting.py",
                "    del books.requests[waiter.request]\n    books.outbox.append((waiter.request, books.reply(granted",
                "    books.requests.pop(waiter.request, None)\n"
                "    books.outbox.append((waiter.request, books.reply(granted",
            ),
        ),
        (SIM, tests(story("slices_and_blinks"))),
        number=12,
        twin="etcd #11456, #9921",
    ),
    Mutant(
        "the end of a lease wakes nobody",
        (
            Edit(
                "core/leases.py",
                "    _hand_on(books, space, lease)\n    waiting.pump(books, space, lease.scope)\n",
                "    _hand_on(books, space, lease)\n",
            ),
        ),
        (SIM, tests(story("queue_order_and_priority"))),
        number=23,
    ),
    Mutant(
        "when a waiter gives up its place, nobody moves up",
        (
            Edit(
                "core/waiting.py",
                "    _remove(books, space, waiter)\n    pump(books, space, waiter.ask.scope)\n    books.tidy(space)",
                "    _remove(books, space, waiter)\n    books.tidy(space)",
            ),
        ),
        (SIM, tests(story("overtaking"))),
        number=23,
    ),
    Mutant(
        "an absent waiter keeps its place for ever",
        (
            Edit(
                "core/waiting.py",
                "    else:\n        leave(books, waiter)\n\n\ndef leave",
                "    else:\n        waiter.gone_ms += 5_000\n        books.timers.add(waiter)\n\n\ndef leave",
            ),
        ),
        (SIM, tests(story("absence"))),
    ),
)

ENDS: Final = (
    Mutant(
        "a heartbeat revives a lease that has lapsed",
        (
            Edit(
                "core/leases.py",
                "    lease = books.leases.get(lease_id)\n    return lease if",
                "    lease = books.leases.get(lease_id) or books.ended.get(lease_id)\n    return lease if",
            ),
            Edit(
                "core/leases.py",
                '        if lease is None or lease.status != "active":',
                '        if lease is None or lease.status not in ("active", "expired"):',
            ),
        ),
        (SIM, tests(story("heartbeats"))),
        number=5,
        twin="the public OpenIntent server",
    ),
    Mutant(
        "a heartbeat renews a lease that an operator has revoked",
        (
            Edit(
                "core/leases.py",
                "    lease = books.leases.get(lease_id)\n    return lease if",
                "    lease = books.leases.get(lease_id) or books.ended.get(lease_id)\n    return lease if",
            ),
            Edit(
                "core/leases.py",
                '        if lease is None or lease.status != "active":',
                '        if lease is None or lease.status not in ("active", "revoked"):',
            ),
        ),
        (tests(story("heartbeats")),),
        number=25,
        twin="etcd before 3.4.38",
    ),
    Mutant(
        "anybody may release a lease",
        (
            Edit(
                "core/leases.py",
                "    if lease.holder != command.holder or (space is not None and space != lease.space):",
                "    if space is not None and space != lease.space:",
            ),
        ),
        (SIM, tests(story("grant_refuse_release"))),
        number=6,
        twin="Redis locks that are given back by DEL",
    ),
    Mutant(
        "a lease lapses 0.6 s before its deadline",
        (
            Edit(
                "model.py",
                '        return self.deadline_ms if self.status == "active"',
                '        return self.deadline_ms - 600 if self.status == "active"',
            ),
        ),
        (SIM, tests(story("expiry_at_the_deadline"))),
        number=14,
    ),
    Mutant(
        "what has died is watched for as long as it would have lived",
        (Edit("core/timers.py", "            things.pop(id(thing), None)\n", "            pass\n"),),
        (tests("core/test_timers.py"),),
    ),
    Mutant(
        "at the very instant of its deadline a lease still lives",
        (
            Edit(
                "core/timers.py",
                "        while self._near and self._near[0][0] <= now_ms:",
                "        while self._near and self._near[0][0] < now_ms:",
            ),
        ),
        (tests(story("expiry_at_the_deadline")),),
        number=20,
    ),
    Mutant(
        "a heartbeat gives half of what it answers",
        (
            Edit(
                "core/leases.py",
                "        end_ms = now_ms + ttl_ms\n",
                "        end_ms = now_ms + ttl_ms // 2\n",
            ),
            Edit(
                "core/leases.py",
                "            left_ms.append(end_ms - now_ms)",
                "            left_ms.append(ttl_ms)",
            ),
        ),
        (SIM,),
        number=15,
    ),
    Mutant(
        "the timer of an ended lease still rings",
        (
            Edit(
                "model.py",
                '        return self.deadline_ms if self.status == "active" else DEAD',
                "        return self.deadline_ms",
            ),
        ),
        (SIM,),
        number=26,
        twin="etcd #15247",
    ),
    Mutant(
        "a renewal takes back what was promised",
        (Edit("core/grants.py", "    return max(end_ms, lease.deadline_ms)", "    return end_ms"),),
        (tests(story("renewal_never_shortens")),),
    ),
    Mutant(
        "heartbeats move the end of max_hold",
        (Edit("core/grants.py", "    if lease.hold_end_ms is not None:", "    if False:"),),
        (tests(story("max_hold")),),
    ),
    Mutant(
        "a lease without progress goes on living",
        (Edit("core/grants.py", "    if lease.progress_end_ms is not None:", "    if False:"),),
        (tests(story("progress")),),
    ),
)

MUTANTS: Final = (*GRANTS, *QUEUES, *ENDS)
