"""Every link of the description, followed: what an answer gives is enough to go on with."""

import re

import httpx2
import pytest
from furniture import AGENT, Furniture
from http_words import running_server

from openintent.model import Limits
from openintent.server.openapi import document
from openintent.server.routes import ROUTES

OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, methods in document(ROUTES, Limits())["paths"].items()
    for method, operation in methods.items()
}
LINKS = [
    (source, link["operationId"], link["parameters"])
    for source, (_, _, operation) in OPERATIONS.items()
    for link in operation["responses"]["200"].get("links", {}).values()
]


@pytest.fixture(scope="module")
def url():
    with running_server() as url:
        yield url


@pytest.fixture(scope="module")
def furniture(url):
    furniture = Furniture(url)
    yield furniture
    furniture.close()


def call(url, furniture, name, names, headers):
    """The operation with its example as the body, but about things of its own."""
    method, path, operation = OPERATIONS[name]
    body = None
    if "requestBody" in operation:
        example = operation["requestBody"]["content"]["application/json"]["example"]
        body = furniture.furnished({field: value for field, value in example.items() if field != "id"})
    filled = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)
    reply = httpx2.request(method.upper(), url + filled, headers={"X-Agent-ID": AGENT, **headers}, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize(("source", "target", "given"), LINKS, ids=[f"{one}-{other}" for one, other, _ in LINKS])
def test_what_an_answer_gives_is_enough_to_go_on_with(url, furniture, source, target, given):
    names = furniture.names(OPERATIONS[source][1])
    answer = call(url, furniture, source, names, {})
    values = {name: str(answer[where.removeprefix("$response.body#/")]) for name, where in given.items()}
    headers = {name.removeprefix("header."): value for name, value in values.items() if name.startswith("header.")}
    call(url, furniture, target, values, headers)
