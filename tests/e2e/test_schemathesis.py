"""Requests made up from the description, valid and not, against a real server: both must mean the same by valid.

No answer is a 5xx; every answer has a shape, a status and headers that the description lists; what it calls valid is
not refused as malformed, and what it calls invalid is refused. An operation that never succeeds proves nothing, so it
fails; so does one whose valid requests mostly end before anything was looked up.
"""

from collections import Counter
from contextlib import suppress

import pytest
import requests
import schemathesis
from furniture import Furniture, is_utf8_by_chance
from http_words import running_server
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from proving import Figures, size
from schemathesis.specs.openapi.checks import negative_data_rejection, use_after_free

from openintent.model import Limits
from openintent.server.openapi import document
from openintent.server.routes import ROUTES

EXAMPLES = size("schemathesis_examples", 4)  # of each operation
BOUNDS = bool(size("schemathesis_bounds", 0))  # each bound of each field too, which takes a thousand times as many
WALKS = max(4, EXAMPLES // 3)
REACHED_MIN = 0.6  # of an operation's valid requests
MALFORMED = (400, 404, 405, 413, 414, 415, 422, 431)  # nothing by that name, or refused before it was looked for
LINKED_MIN = 10  # operations that must have been reached by a link, and succeeded

schema = schemathesis.openapi.from_dict(document(ROUTES, Limits())).exclude(tag="Streams")
schema.config.generation.update(codec="latin-1")  # beyond it, the description does not say what is printable
schema.config.checks.positive_data_acceptance.enabled = True
schema.config.phases.coverage.enabled = BOUNDS


@pytest.fixture(scope="module")
def url():
    with running_server() as url:
        yield url


@pytest.fixture(scope="module")
def furniture(url):
    furniture = Furniture(url)
    yield furniture
    furniture.close()


@pytest.fixture(scope="module")
def session():
    with requests.Session() as session:
        yield session


@pytest.fixture(scope="module")
def total():
    """What came of all operations together."""
    counts = Counter()
    yield counts
    share = round(counts["reached"] / max(1, counts["valid"]), 3)
    words = {name: counts[name] for name in ("calls", "valid", "reached", "errors")}
    Figures("tests/e2e/test_schemathesis.py").add("requests made up from the description", **words, share=share)


@pytest.fixture
def tally(total):
    """What came of an operation's requests. One that never succeeds was never really tried.

    A valid request reached a real thing if it was not answered 404, nor refused as malformed.
    """
    counts = Counter()
    yield counts
    assert counts["done"], counts
    assert counts["reached"] >= REACHED_MIN * counts["valid"], counts
    total.update(counts)


def count(tally, case, status):
    tally["calls"] += 1
    tally["done"] += 200 <= status < 300
    tally["errors"] += status >= 500
    if case.meta.generation.mode.is_positive:
        tally["valid"] += 1
        tally["reached"] += status not in MALFORMED


def left_out(case):
    return [negative_data_rejection] if is_utf8_by_chance(case) else []


SETTINGS = settings(
    max_examples=EXAMPLES,
    derandomize=True,  # the same requests in each run
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@schema.parametrize()
@SETTINGS
def test_the_server_and_its_description_agree(case, url, furniture, session, tally):
    furniture.furnish(case)
    reply = case.call(base_url=url, session=session, timeout=20)
    count(tally, case, reply.status_code)
    case.validate_response(reply, excluded_checks=left_out(case))


@pytest.mark.slow
def test_whatever_is_done_in_whatever_order_the_answers_stay_as_described(url, furniture, session):
    """Follows the links from answer to answer."""
    followed = Counter()

    class Walk(schema.as_state_machine()):
        def step(self, input):  # noqa: A002  # as it is called
            self.linked = input.transition is not None and input.is_applied
            furniture.furnish(input.case, names=not self.linked)
            return super().step(input)

        def get_call_kwargs(self, case):
            return {"base_url": url, "session": session, "timeout": 20}

        def after_call(self, response, case):
            if self.linked:
                followed[case.operation.label, response.status_code] += 1

        def validate_response(self, response, case, additional_checks=None, **kwargs):
            case.validate_response(response, excluded_checks=[use_after_free, *left_out(case)], transport_kwargs=kwargs)

    for number in range(WALKS):
        # A server remembers, so the same choices may lead elsewhere. Hypothesis then gives up; the next walk goes on.
        with suppress(FlakyStrategyDefinition):
            seed(number)(Walk).run(
                settings=settings(SETTINGS, max_examples=6, derandomize=False, stateful_step_count=8)
            )
    successes = [label for label, status in followed if status == 200]
    assert len(set(successes)) >= LINKED_MIN, followed
