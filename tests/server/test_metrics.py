"""What a server tells those who watch it: true figures, in a form that Prometheus reads."""

import re
from pathlib import Path

import httpx2
import pytest
from http_words import Api, running_server

from openintent.server.metrics import MEDIA

ROOT = Path(__file__).parents[2]
HELP = re.compile(r"# HELP (?P<name>[a-z_]+) (?P<says>[^\\]+\.)")
TYPE = re.compile(r"# TYPE (?P<name>[a-z_]+) (?P<kind>gauge|counter|histogram)")
SAMPLE = re.compile(r'(?P<name>[a-z_]+)(?P<labels>\{[a-z]+="[^"\\\n]*"\})? (?P<value>[0-9.]+(e[-+][0-9]+)?)')
ROW = re.compile(r"^\| `((?:openintent|process)_[a-z_]+)` \|", re.MULTILINE)


@pytest.fixture(scope="module")
def alone():
    """A server that nobody else asks anything."""
    with running_server() as url:
        yield url


def figures(url: str) -> dict[str, float]:
    """By name and labels. Whatever is not in the form fails the test."""
    reply = httpx2.get(f"{url}/metrics")
    assert reply.headers["content-type"] == MEDIA
    found: dict[str, float] = {}
    kinds: dict[str, str] = {}
    for line in reply.text.removesuffix("\n").split("\n"):
        if (kind := TYPE.fullmatch(line)) is not None:
            assert kinds.setdefault(kind["name"], kind["kind"]) == kind["kind"]
        elif HELP.fullmatch(line) is None:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            family = re.sub("_(bucket|sum|count)$", "", sample["name"])
            assert (family if family in kinds else sample["name"]) == list(kinds)[-1], "samples stand behind their type"
            assert line.partition(" ")[0] not in found
            found[line.partition(" ")[0]] = float(sample["value"])
    return found


def rise(before: dict[str, float], after: dict[str, float], name: str) -> float:
    return after.get(name, 0) - before.get(name, 0)


@pytest.mark.parametrize("lane", ["hot", "asgi"])
def test_what_is_held_and_what_has_ended_is_counted(alone, lane):
    api = Api(alone, lane)
    before = figures(alone)
    with api.http:
        lease = api.post("/spaces/default/leases", {"scope": "build"}).json()
        assert api.post("/spaces/default/leases", {"scope": "build"}, agent="bob").status_code == 409
        held = figures(alone)
        api.delete(f"/leases/{lease['id']}")
    after = figures(alone)
    assert held["openintent_leases"] == before["openintent_leases"] + 1
    assert held["openintent_token"] == lease["token"]
    assert rise(before, held, 'openintent_leases_ended_total{how="released"}') == 0
    assert rise(before, after, 'openintent_leases_ended_total{how="released"}') == 1
    assert after["openintent_leases"] == before["openintent_leases"]
    assert rise(before, after, 'openintent_answers_total{status="409"}') == 1
    # The answer of the first look has left after it was made.
    assert rise(before, after, 'openintent_answers_total{status="200"}') == 4
    assert rise(before, after, "openintent_events_total") == 2


def test_every_commit_is_in_one_bucket_and_in_all_above_it(alone):
    before = figures(alone)
    httpx2.post(f"{alone}/api/v1/intents", json={"title": "t"}, headers={"X-Agent-ID": "ada"})
    after = figures(alone)
    buckets = [value for name, value in after.items() if name.startswith("openintent_commit_seconds_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == after["openintent_commit_seconds_count"]
    assert rise(before, after, "openintent_commit_seconds_count") >= 1
    assert rise(before, after, "openintent_commit_seconds_sum") > 0
    assert rise(before, after, "openintent_intents") == 1


def test_open_connections_and_streams_are_counted(alone):
    before = figures(alone)
    with (
        httpx2.Client(base_url=alone) as http,
        http.stream("GET", "/api/v1/subscribe/spaces/default") as stream,
    ):
        lines = stream.iter_lines()  # whose end would be that of the stream
        next(lines)
        after = figures(alone)
    assert rise(before, after, "openintent_streams") == 1
    assert rise(before, after, "openintent_connections") == 1


def test_a_server_that_serves_says_so(alone):
    found = figures(alone)
    assert found["openintent_ready"] == found["openintent_leads"] == 1
    assert found["openintent_term"] >= 1
    assert found["openintent_commit_failures_total"] == 0
    assert found["process_start_time_seconds"] > 1_700_000_000


def test_every_metric_is_explained_and_every_explanation_has_its_metric(alone):
    told = {name for name, _ in TYPE.findall(httpx2.get(f"{alone}/metrics").text)}
    explained = ROW.findall((ROOT / "docs" / "operations.md").read_text(encoding="utf-8"))
    assert sorted(explained) == sorted(told)
