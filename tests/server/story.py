"""Plays the story of `openapi_examples` against a server, and makes equal in its answers what differs each time."""

import hashlib
import json
import re
from itertools import count

import httpx2

from openintent.server.openapi import path_of
from openintent.server.openapi_examples import STORY, Recorded, filled
from openintent.server.routes import ROUTES
from openintent.version import __version__

BY_NAME = {route.name: route for route in ROUTES}
VERSION = "0.1.0"

DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
MADE_UP = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{24}\b")
SECONDS = re.compile(r'("(?:remaining|waited|retry_after|next_heartbeat)_seconds": )([0-9.e-]+)')
OWN_URL = re.compile(r"http://127\.0\.0\.1:\d+")
IN_WORDS = re.compile(r"\b(\d+)\.\d s\b")


def url_of(route, names):
    path = path_of(route)
    for name in names:
        path = re.sub(r"\{\w+\}", name, path, count=1)
    return path


def play(url):
    """The answers of the server at this address, which must be a fresh one. What does not succeed fails the test."""
    kept, answers, problems = {}, {}, {}
    with httpx2.Client(base_url=url, timeout=20) as http:
        for step in STORY:
            route = BY_NAME[step.route]
            reply = http.request(
                route.method,
                url_of(route, filled(list(step.names), kept)),
                params=step.query,
                headers={"X-Agent-ID": "ada", **step.headers},
                json=filled(step.body, kept),
            )
            told = reply.json() if reply.headers["content-type"] == "application/json" else None
            if step.refused:
                assert told["error"]["code"] == step.refused, (step, told)
                problems.setdefault(step.refused, told)
                continue
            assert reply.status_code == 200, (step, told)
            answers.setdefault(step.route, told)
            if step.keeps:
                kept[step.keeps] = {"id": told["id"], "token": told["token"]}
    answers.pop("get_openapi")  # which is what the answers are for
    answers.pop("get_metrics")  # which is no JSON, and never the same
    return Recorded(kept, answers, problems)


def other_digits(text, number):
    """An id that looks like this one and is the same each time."""
    digits = iter(hashlib.sha256(str(number).encode()).hexdigest())
    return re.sub(r"[0-9a-f]", lambda _: next(digits), text)


def made_equal(recorded):
    """The same, without dates, made-up ids and fractions of seconds."""
    numbers, seen = count(1), {}

    def name(found):
        text = found.group()
        if text not in seen:
            seen[text] = other_digits(text, next(numbers))
        return seen[text]

    parts = {"kept": recorded.kept, "answers": recorded.answers, "problems": recorded.problems}
    text = json.dumps(parts, ensure_ascii=False)
    text = MADE_UP.sub(name, text)
    text = DATE.sub("2026-01-05T09:00:00.000000", text)
    text = SECONDS.sub(lambda found: f"{found[1]}{float(round(float(found[2])))}", text)
    text = OWN_URL.sub("http://127.0.0.1:8000", text)
    text = IN_WORDS.sub(lambda found: f"{found[1]}.0 s", text)
    return json.loads(text.replace(f'"{__version__}"', f'"{VERSION}"'))
