"""Bugs in the server: whom it lets in, and what it answers and to whom."""

from typing import Final

from mutant import Edit, Mutant, tests

KEYS: Final = (
    Mutant(
        "any key may act as any agent",
        (Edit("server/bodies.py", "    if principal.bound and not principal.may_act_as(found):", "    if False:"),),
        (tests("server/test_gate.py::test_whoever_is_named_elsewhere_than_in_the_header_is_checked_too"),),
        number=44,
    ),
    Mutant(
        "whoever has a key may do what is for operators",
        (
            Edit(
                "server/service.py",
                "        if route.operator and not exchange.principal.operator:",
                "        if False:",
            ),
        ),
        (
            tests(
                "server/test_key_matrix.py::test_each_caller_gets_what_the_matrix_says"
                "[hot-POST intents/{}/leases/{}/revoke-own]"
            ),
        ),
        number=44,
    ),
    Mutant(
        "a key stands in the log when a request is refused",
        (
            Edit(
                "server/service.py",
                'exchange.headers.get(b"x-agent-id", b"").decode',
                'exchange.headers.get(b"x-api-key", b"").decode',
            ),
        ),
        (
            tests(
                "e2e/test_canary.py::test_a_server_keeps_keys_to_itself_over_all_routes_mistakes_a_crash_and_a_stop[text]"
            ),
        ),
        number=45,
    ),
    Mutant(
        "keys are compared byte by byte until they differ",
        (
            Edit(
                "server/keys.py",
                "        return principal if compare_digest(sha256(secret).digest(), digest) else None",
                "        return principal if sha256(secret).digest() == digest else None",
            ),
        ),
        (tests("server/test_keys.py::test_digests_are_compared_in_constant_time_and_for_unknown_keys_too"),),
        number=46,
    ),
    Mutant(
        "a key that was revoked goes on being good",
        (Edit("server/keys.py", "        if self.revoked is not None:\n", "        if False:\n"),),
        (tests("server/test_gate.py::test_the_bearer_of_a_key_that_has_ended_is_told_so"),),
    ),
    Mutant(
        "a key for one instance is good for the whole agent",
        (
            Edit(
                "server/keys.py",
                "        return agent_name_of(agent) in self._names\n",
                "        return agent_name_of(agent) in map(agent_name_of, self._names)\n",
            ),
        ),
        (tests("server/test_keys.py::test_a_principal_may_act_as_the_agents_it_is_bound_to"),),
    ),
    Mutant(
        "a key file that others can read is used",
        (Edit("server/keys.py", "    if mode & 0o077:", "    if False:"),),
        (tests("server/test_keys.py::test_a_file_that_others_may_read_or_change_is_refused_with_what_to_do"),),
    ),
    Mutant(
        "a name can begin a line of its own in the log",
        (
            Edit(
                "server/logs.py",
                '    return _PLAIN.sub(r"\\1", json.dumps(value))',
                "    return str(value)",
            ),
        ),
        (tests("server/test_logs.py::test_a_value_cannot_leave_its_place"),),
        number=48,
    ),
    Mutant(
        "without keys the server listens to the whole network",
        (Edit("server/settings.py", "    if is_loopback(host):\n", "    if is_loopback(host) or not found:\n"),),
        (tests("server/test_settings.py::test_no_other_address_is_served_without_keys"),),
        number=50,
    ),
    Mutant(
        "a page from elsewhere may call a server without keys",
        (
            Edit(
                "server/auth.py",
                "        if origin is not None and not _from_this_machine(",
                "        if False and not _from_this_machine(",
            ),
        ),
        (tests("server/test_general.py::test_a_page_from_elsewhere_is_turned_away"),),
    ),
)

STATE: Final = (
    Mutant(
        "another's item is written by spelling its index otherwise",
        (
            Edit(
                "core/values.py",
                "str(int(segment)) if isinstance(node, list) and _is_index(segment) else segment",
                "segment",
            ),
        ),
        (tests("server/test_intents.py::test_nor_at_an_item_of_a_list_that_is_anothers"),),
    ),
    Mutant(
        "another's item is moved",
        (Edit("core/values.py", 'step.op == "remove" and len(path)', 'step.op == "move" and len(path)'),),
        (tests("server/test_intents.py::test_nor_at_an_item_of_a_list_that_is_anothers"),),
    ),
    Mutant(
        "a lease whose scope begins with a slash guards nothing",
        (Edit("core/intents.py", ' or space.leases.other(f"/{path}", command.actor)', ""),),
        (tests("server/test_intents.py::test_nobody_writes_under_anothers_lease"),),
    ),
)

BATCHES: Final = (
    Mutant(
        "a batch answers before its last part",
        (
            Edit(
                "server/routes/batches.py", "        if not self._unanswered:\n", "        if self._unanswered <= 1:\n"
            ),
        ),
        (
            tests(
                "server/test_batched_turns.py::test_a_batch_is_answered_when_all_of_it_is_durable_and_not_when_most_of_it_is"
            ),
        ),
    ),
    Mutant(
        "a batch ends the turn for those behind it",
        (
            Edit(
                "server/service.py",
                "outermost, self._gathering = not self._gathering,",
                "outermost, self._gathering = True,",
            ),
        ),
        (tests("server/test_batched_turns.py"),),
    ),
    Mutant(
        "a part of a batch goes on waiting for a client that has gone",
        (Edit("server/exchange.py", "            part.gone()\n", "            pass\n"),),
        (tests("server/test_batched_turns.py"),),
    ),
    Mutant(
        "a change of state overtakes what stands before it in a batch",
        (
            Edit(
                "server/routes/intents.py",
                "service.ask(exchange, command, show_intent)",
                "show_intent(service, exchange, service.apply(command))",
            ),
        ),
        (tests("server/test_batches.py"),),
    ),
    Mutant(
        "the attempt of a batch is that of each of its parts",
        (Edit("server/routes/batches.py", 'frozenset({b"idempotency-key", b"if-match"})', "frozenset[bytes]()"),),
        (tests("server/test_batches.py"),),
    ),
    Mutant(
        "a server that does not lead refuses each part of a batch, in place of passing it on",
        (Edit("server/routes/batches.py", "    if not service.grantor.leads:\n", "    if False:\n"),),
        (tests("server/test_batched_turns.py"),),
    ),
)

WATCHED: Final = (
    Mutant(
        "a narrowed list of all looks at the newest ends only",
        (
            Edit(
                "grantor/history.py",
                "(not types or event.type in types) and where(event)",
                "(not types or event.type in types)",
            ),
        ),
        (tests("server/test_leases.py::test_a_narrowed_list_of_all_finds_what_ended_long_before_others_did"),),
    ),
    Mutant(
        "leases that ended are counted when nobody knows yet whether that is durable",
        (
            Edit(
                "grantor/feed.py",
                "        if not self._count:\n            return Bulletin(ended=ended)\n",
                "        self.ended.update(ended)\n        if not self._count:\n            return Bulletin()\n",
            ),
        ),
        (tests("grantor/test_feed.py"),),
    ),
    Mutant(
        "answers of the ordinary lane are not counted",
        (Edit("server/asgi.py", "+= exchange.written.done()", "+= 0"),),
        (tests("server/test_metrics.py"),),
    ),
    Mutant(
        "a bucket counts only what is in none below it",
        (Edit("server/metrics.py", "list(accumulate(took.counts))", "took.counts"),),
        (tests("server/test_metrics.py"),),
    ),
    Mutant(
        "a server that is behind refuses to say so",
        (Edit("server/urgency.py", '    ("GET", "metrics"),', '    # ("GET", "metrics"),'),),
        (tests("server/test_overload.py"),),
    ),
)

MEMORY: Final = (
    Mutant(
        "memory is put into large pages without a rest",
        (Edit("server/largepages.py", "REST: Final = 5 ", "REST: Final = 0 "),),
        (tests("server/test_largepages.py::test_after_each_page_it_rests_for_five_times_as_long_as_that_took"),),
    ),
    Mutant(
        "a server that grows stays in small pages",
        (Edit("server/app.py", "            self._pages.start()  #", "            #"),),
        (tests("e2e/test_large_memory.py"),),
    ),
)

MUTANTS: Final = (*KEYS, *STATE, *BATCHES, *WATCHED, *MEMORY)
