"""Whether an answer is as the description of the interface says: its status, its code, its shape."""

import json
from functools import cache

import jsonschema_rs

from openintent.model import Limits
from openintent.server.openapi import document, path_of
from openintent.server.routes import ROUTER, ROUTES
from openintent.server.routing import Match


@cache
def description():
    return document(ROUTES, Limits())


@cache
def validator(schema):
    return jsonschema_rs.Draft202012Validator({**json.loads(schema), "components": description()["components"]})


def check(method, path, reply):
    """Fails if the answer of an operation is not listed with it. A path or a method that there is none of is let be."""
    found = ROUTER.find(method, path.partition("?")[0])
    if not isinstance(found, Match) or found.route.stream or reply.status_code == 304:
        return
    route = found.route
    responses = description()["paths"][path_of(route)][route.method.lower()]["responses"]
    listed = responses.get(str(reply.status_code))
    assert listed is not None, f"{route.name}: {reply.status_code} is not described; see Route.codes"
    if "$ref" in listed:
        listed = description()["components"]["responses"][listed["$ref"].rpartition("/")[2]]
    ((media, described),) = listed["content"].items()
    assert reply.headers["content-type"].partition(";")[0] == media
    told = reply.json() if media == "application/json" else reply.text
    faults = [each.message for each in validator(json.dumps(described["schema"])).iter_errors(told)]
    assert faults == [], f"{route.name}: {reply.status_code} is described otherwise; see Route.codes and Route.view"
