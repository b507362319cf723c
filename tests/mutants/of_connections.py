"""Bugs in connections: what is taken for what, in which order, and what becomes of it when there is too much to do."""

from typing import Final

from mutant import Edit, Mutant, tests

MUTANTS: Final = (
    Mutant(
        "headers that were read before are taken for another's key",
        (Edit("server/service.py", "or head.edition is not edition:", "or head.edition is None:"),),
        (tests("server/test_heads.py::test_a_key_that_ends_ends_for_heads_that_were_read_before"),),
    ),
    Mutant(
        "a request is recognised by its headers, whatever its first line says",
        (Edit("server/hotlane.py", "not last.isalnum() or ", ""),),
        (tests("server/test_heads.py::test_a_line_is_read_anew_whatever_comes_after_it"),),
    ),
    Mutant(
        "a head that has not ended yet is taken for a request",
        (Edit("server/hotlane.py", " or not end:", ":"),),
        (tests("server/test_heads.py::test_a_head_without_its_end_is_no_request_yet"),),
    ),
    Mutant(
        "who was let in once is let in with whatever the body says that it is",
        (
            Edit(
                "server/service.py",
                "            bodies.check_media_type(exchange)\n        self.gate.check(exchange)\n",
                "            self.gate.check(exchange)\n            bodies.check_media_type(exchange)\n",
            ),
        ),
        (tests("server/test_heads.py::test_a_body_that_is_not_json_is_refused_however_often_it_comes"),),
    ),
    Mutant(
        "a scope with a backslash is taken as it stands",
        (Edit("server/wishes.py", " or scope.find(BACKSLASH) >= 0:", ":"),),
        (tests("server/test_wishes.py"),),
    ),
    Mutant(
        "a text with a backslash in it is remembered",
        (Edit("server/wishes.py", "raw.find(BACKSLASH) < 0 and ", ""),),
        (tests("server/test_wishes.py"),),
    ),
    Mutant(
        "the scope in somebody's metadata is taken for the scope",
        (Edit("server/wishes.py", "texts == (None, None, None)", "True"),),
        (tests("server/test_wishes.py"),),
    ),
    Mutant(
        "a scope that is too long is granted to whoever asked for a short one before",
        (Edit("server/wishes.py", "if scope_problem(name, self._limits) is None else", "if True else"),),
        (tests("server/test_wishes.py"),),
    ),
    Mutant(
        "whatever has no scope is remembered as what stands before one",
        (Edit("server/wishes.py", "if around[1] and texts", "if texts"),),
        (tests("server/test_wishes.py::test_whatever_is_odd_is_read_by_the_reader_of_json"),),
    ),
    Mutant(
        "a field that comes again is taken for the first one if both are of one letter",
        (
            Edit(
                "server/hotlane.py",
                "        if name in fields:",
                "        if name in fields and fields[name] is not value:",
            ),
        ),
        (
            tests(
                "server/test_heads.py::test_a_field_that_comes_twice_with_one_letter_is_not_left_out_of_the_next_head"
            ),
        ),
    ),
    Mutant(
        "a name that is too long is granted once it has been refused",
        (Edit("server/heads.py", "min(LINE_BYTES_MAX, name_chars_max)", "LINE_BYTES_MAX"),),
        (tests("server/test_heads.py::test_a_name_that_is_too_long_is_never_recognised"),),
    ),
    Mutant(
        "the log tells of a lease wherever it is asked for",
        (Edit("core/answers.py", " and self.space in (None, lease.space)", ""),),
        (
            tests(
                "server/test_ended_in_log.py::test_an_ended_lease_is_told_of_where_it_was_to_its_holder_and_to_operators"
            ),
        ),
    ),
    Mutant(
        "the log is read before it has what memory has forgotten",
        (
            Edit(
                "server/service.py",
                "        if not await self.grantor.feed.reached(self.grantor.books.seq):",
                "        if False:",
            ),
        ),
        (
            tests(
                "server/test_ended_in_log.py::test_a_look_that_reads_the_log_misses_nothing_that_was_decided_before_it"
            ),
        ),
    ),
    Mutant(
        "a lease is shown without what it is for",
        (Edit("server/lease_texts.py", "            or lease.purpose is not None\n", ""),),
        (tests("server/test_lease_texts.py"),),
    ),
    Mutant(
        "a name with a quote in it ends the text of a lease",
        (Edit("server/lease_texts.py", "{quoted(lease.scope)}", '"{lease.scope}"'),),
        (tests("server/test_lease_texts.py"),),
    ),
    Mutant(
        "what was made once is kept for ever",
        (Edit("server/memo.py", "        if len(self) >= self._most:\n", "        if False:\n"),),
        (tests("server/test_lease_texts.py"),),
    ),
    Mutant(
        "a request overtakes the one before it on its connection, which waits for the end of the turn",
        (
            Edit(
                "server/hotlane.py",
                "            self.turn.end()  # what came before on this connection may be waiting for that",
                "            pass",
            ),
        ),
        (tests("server/test_turns.py"),),
    ),
    Mutant(
        "what a client is shown is what others made of it in the same turn",
        (
            Edit(
                "server/service.py",
                "        for exchange, command, show in asked:\n            try:\n",
                "        asked = [each if each[2] is None else (*each, apply(each[1])) for each in asked]\n"
                "        for exchange, command, show, *known in asked:\n            try:\n"
                "                apply = (lambda _: known[0]) if known else self.apply\n",
            ),
        ),
        (tests("server/test_turns.py"),),
    ),
    Mutant(
        "an answer that cannot be sent ends the turn for the others, and all that come later",
        (
            Edit(
                "server/service.py",
                "            tell(self._fail, exchange, failure)\n\n    def dispatch_all",
                "            self._fail(exchange, failure)\n\n    def dispatch_all",
            ),
        ),
        (tests("server/test_turns.py"),),
    ),
    Mutant(
        "who hung up before the end of the turn is granted what it asked for",
        (Edit("server/turns.py", "[exchange for exchange in arrived if not exchange.done]", "arrived"),),
        (tests("server/test_turns.py"),),
    ),
    Mutant(
        "a request that is refused leaves something behind",
        (
            Edit(
                "server/service.py",
                "        if isinstance(failure, problems.Refused):\n",
                "        if isinstance(failure, problems.Refused):\n"
                "            from openintent.core.commands import CreateIntent\n"
                "            from openintent.model import Intent\n"
                '            left = Intent(id=f"left-{self.grantor.now_ms}", title="left")\n'
                '            self.apply(CreateIntent(intent=left, chosen_id=False, actor="nobody"))\n',
            ),
        ),
        (tests("server/test_bad_requests.py"),),
    ),
    Mutant(
        "answers leave in the order in which they are ready",
        (
            Edit(
                "server/cycles.py",
                "            if line.pipeline[0] is self:  # else it is answered, but it is not yet its turn\n"
                "                line.flush()",
                "            line.pipeline.remove(self)\n"
                "            line.pipeline.appendleft(self)\n"
                "            line.flush()",
            ),
        ),
        (tests("server/test_hotlane.py::test_answers_leave_in_the_order_of_the_requests"),),
        number=35,
    ),
    Mutant(
        "a renewal is refused when the server is behind",
        (Edit("server/service.py", "> BUSY_MIN and not route.vital and", "> BUSY_MIN and"),),
        (tests("server/test_overload.py::test_a_renewal_is_served_however_far_behind_the_server_is"),),
        number=37,
    ),
    Mutant(
        "late in a turn a renewal rests like an acquire",
        (Edit("server/overload.py", "urgency is Urgency.VITAL or ", ""),),
        (tests("server/test_resting.py::test_late_in_a_turn_what_keeps_a_lease_is_served"),),
    ),
    Mutant(
        "a turn takes up all that rests, however long that takes",
        (Edit("server/overload.py", " and self._clock_s() < self.turn_until_s and", " and"),),
        (tests("server/test_resting.py::test_a_turn_takes_up_no_more_than_it_has_time_for"),),
    ),
    Mutant(
        "who hung up while their request rested is granted what they asked for",
        (Edit("server/hotlane.py", "        if self.has_hung_up():", "        if False:"),),
        (tests("server/test_resting.py::test_who_hung_up_while_they_rested_gets_nothing"),),
    ),
    Mutant(
        "a server on which requests take long refuses nothing, however late",
        (Edit("server/overload.py", "BUSY_MIN if any(self._resting.values()) else 0, 0", "0, 0"),),
        (
            tests(
                "server/test_resting.py::test_where_something_rests_there_is_too_much_to_do_however_few_requests_fit_into_a_turn"
            ),
        ),
    ),
    Mutant(
        "an ordinary request that was taken up in time is refused when it is carried out",
        (Edit("server/overload.py", "        self._late = set()\n        if any", "        if any"),),
        (tests("server/test_resting.py::test_what_has_rested_for_too_long_is_refused_in_the_second_half_of_a_turn"),),
    ),
    Mutant(
        "what comes while others rest goes before them",
        (
            Edit(
                "server/overload.py",
                "            self.turn_until_s = now_s  # what comes now rests behind it",
                "            pass",
            ),
        ),
        (tests("server/test_resting.py::test_what_comes_while_others_rest_rests_behind_them"),),
    ),
    Mutant(
        "whoever rests for long is closed as idle",
        (Edit("server/connection.py", "if self.pipeline or self.flow.resting else", "if self.pipeline else"),),
        (tests("server/test_resting.py::test_what_rests_is_not_idle"),),
    ),
    Mutant(
        "an answer makes a connection read on whose next request rests",
        (Edit("server/cycles.py", " and not self.resting:", ":"),),
        (tests("server/test_resting.py::test_an_answer_does_not_make_a_connection_read_on_whose_next_request_rests"),),
    ),
    Mutant(
        "whoever rests when the server stops is told nothing",
        (Edit("server/connection.py", "(begun or self.flow.resting)", "begun"),),
        (tests("server/test_resting.py::test_who_rests_when_the_server_stops_is_told_that_nothing_happened"),),
    ),
    Mutant(
        "a waiter whose connection was lost goes on waiting",
        (Edit("server/connection.py", "                cycle.gone()\n", "                pass\n"),),
        (tests("server/test_hotlane.py::test_a_lost_connection_concerns_every_request_on_it"),),
        number=38,
    ),
    Mutant(
        "a request that never ends keeps its connection for ever",
        (
            Edit(
                "server/connection.py",
                "        if self.receiving and not self._keeps_waiting():",
                "        if False:",
            ),
        ),
        (tests("server/test_sweep.py::test_a_request_must_be_complete_ten_seconds_after_its_first_byte"),),
    ),
    Mutant(
        "a connection with requests like those before is taken for idle",
        (
            Edit(
                "server/hotlane.py",
                "        self.stirred = True\n        self.pipeline.append(cycle)",
                "        self.pipeline.append(cycle)",
            ),
        ),
        (tests("server/test_heads.py::test_a_line_with_requests_is_not_idle"),),
    ),
    Mutant(
        "a lost connection stays in memory with its last request",
        (Edit("server/connection.py", "        self.cycle = None  # uvicorn would", "        # uvicorn would"),),
        (tests("server/test_hotlane.py::test_nothing_is_left_of_a_lost_connection"),),
    ),
)
