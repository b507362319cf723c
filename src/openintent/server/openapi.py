"""The description of the interface: OpenAPI 3.1, made from the routes and the structs that decode their requests.

It promises that whatever it calls valid is not refused as malformed, and that every answer has the shape and the code
that it lists. It does not promise the reverse for sizes in bytes, for characters beyond Latin-1, and for fields that
must fit each other: JSON Schema has no words for those, so a sentence says it, and the server checks.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from openintent.model import Limits
from openintent.server import openapi_answers as answers
from openintent.server import openapi_bounds as bounds
from openintent.server.openapi_examples import Example, examples, name_example, problem_examples
from openintent.server.openapi_shapes import Schema, Shapes
from openintent.server.openapi_words import ABOUT, MORE, PLACES, SENT, TAGS, TITLE
from openintent.server.routing import NAME, Route, Router
from openintent.version import __version__
from openintent.wire import API

# A server without keys lets everybody on its machine in; so none is the first of the ways.
SECURITY: Final[list[Schema]] = [{}, {"key": []}, {"bearer": []}]
SCHEMES: Final[Schema] = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


class Served(msgspec.Struct, frozen=True):
    """The document as it goes over the wire."""

    payload: bytes
    etag: bytes


@lru_cache(maxsize=4)
def served(router: Router, limits: Limits) -> Served:
    payload = msgspec.json.encode(document(router.routes, limits))
    return Served(payload, b'"%b"' % hashlib.sha256(payload).hexdigest()[:16].encode())


def document(routes: list[Route], limits: Limits) -> Schema:
    """The whole document. Bounds in it are those of a server with these limits."""
    shapes = Shapes(routes, limits)
    shown, by_name = examples(), {route.name: route for route in routes}
    shared: Schema = {}
    paths: Schema = {}
    for route in routes:
        example = shown.get(route.name, Example())
        operation = _operation(route, shapes, example)
        success = answers.success(route, shapes, example.answer, by_name)
        operation["responses"] = {"200": success, **answers.refusals(route, shapes, shared)}
        paths.setdefault(path_of(route), {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": __version__, "description": ABOUT, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "security": SECURITY,
        "tags": [{"name": name, "description": said} for name, said in _tags(routes)],
        "paths": paths,
        "components": {
            "schemas": shapes.components,
            "parameters": _shared_parameters(routes, limits),
            "headers": answers.headers(),
            "responses": shared,
            "examples": {code: {"value": value} for code, value in problem_examples().items()},
            "securitySchemes": SCHEMES,
        },
    }


def _operation(route: Route, shapes: Shapes, example: Example) -> Schema:
    more = MORE.get(plain_name(route.name), "")
    if route.operator:
        more = f"For operators. {more}"
    operation: Schema = {
        "operationId": route.name,
        "tags": [TAGS[_tag(route)][0]],
        "summary": route.says,
        **({"description": more} if more else {}),
        **({"security": []} if route.open else {}),
    }
    parameters = [*_references(route), *_query(route, shapes, example)]
    if parameters:
        operation["parameters"] = parameters
    if route.body:
        media: Schema = {"schema": shapes.of(route.body), "example": example.body}
        required = not shapes.may_be_left_out(route.body)
        operation["requestBody"] = {"required": required, "content": {"application/json": media}}
    return operation


def plain_name(name: str) -> str:
    """The name of an operation without the place: what it does is the same in all of them."""
    for place in ("intent", "space", "portfolio", "agent"):
        for word in ("lease", "leases", "attempt", "queue", "progress", "events", "event"):
            if name.endswith(f"_{place}_{word}"):
                return name.removesuffix(f"_{place}_{word}") + f"_{word}"
    return name


def _tag(route: Route) -> str:
    handler = getattr(route.handler, "func", route.handler)  # that of a partial
    module: str = handler.__module__.rpartition(".")[2]
    if route.pattern.endswith("/events"):
        return "events"
    return "streams" if route.stream else "leases" if module == "lease_lists" else module


def _tags(routes: list[Route]) -> Iterator[tuple[str, str]]:
    used = {_tag(route) for route in routes}
    return (words for tag, words in TAGS.items() if tag in used)


# Parameters


def _names(route: Route) -> Iterator[str]:
    """For each name in the path, what stands before it."""
    segments = route.pattern.split("/")
    return (before for before, segment in itertools.pairwise(segments) if segment == NAME)


def path_of(route: Route) -> str:
    """The path with its names in braces."""
    path = route.pattern if route.pattern.startswith("/") else f"{API}/{route.pattern}"
    for before in _names(route):
        path = path.replace(NAME, f"{{{PLACES[before][0]}}}", 1)
    return path


def _references(route: Route) -> Iterator[Schema]:
    keys = [PLACES[before][0] for before in _names(route)]
    keys += [f"{header}.needed" for header in route.needs]
    keys += route.reads
    return ({"$ref": f"#/components/parameters/{key}"} for key in keys)


def _shared_parameters(routes: list[Route], limits: Limits) -> Schema:
    """Names in paths and headers: they are the same wherever they stand."""
    used = {before for route in routes for before in _names(route)}
    shown: Schema = {}
    for before in sorted(used):
        name, said = PLACES[before]
        shown[name] = _parameter("path", name, said, bounds.name(limits), required=True, example=name_example(name))
    keywords = bounds.headers(limits)
    for header, said in SENT.items():
        for key, required in ((header, False), (f"{header}.needed", True)):
            if any(header in (route.needs if required else route.reads) for route in routes):
                bound, example = keywords.get(key) or keywords[header], Example.HEADERS[header]
                shown[key] = _parameter("header", header, said, bound, required=required, example=example)
    return shown


def _parameter(
    where: str, name: str, said: str, keywords: Mapping[str, Any], *, required: bool, example: str
) -> Schema:
    return {
        "name": name,
        "in": where,
        "required": required,
        "description": said,
        "schema": {"type": "string", **keywords},
        "example": example,
    }


def _query(route: Route, shapes: Shapes, example: Example) -> Iterable[Schema]:
    if route.query is None:
        return
    for name, schema in shapes.of_query(route.query).items():
        said = schema.pop("description", "")
        given = {"example": example.query[name]} if name in example.query else {}
        required = name in bounds.REQUIRED_IN_QUERY
        yield {"name": name, "in": "query", "required": required, "description": said, "schema": schema, **given}
